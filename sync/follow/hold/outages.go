package hold

import (
	"maps"
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
)

// learnTime is the most by which this process learns of an outage later than the kernel. Packets may
// have been held meanwhile, which clients of UDP may not send again.
const learnTime = time.Second

// outages are the pools without an endpoint whose connections the kernel holds, or held before.
type outages struct {
	frontends map[model.Match]*pool    // those that hold, or may again
	pools     map[model.Match]*pool    // of these frontends, by key
	waiting   map[*pool]struct{}       // those that have clients, and are not over
	ended     map[*pool]time.Time      // when those that are over were reported
	holding   [len(model.Families)]int // frontends of pools that are not over, or only beyond their share
	beyond    [len(model.Families)]int // pools
	resized   [len(model.Families)]bool
	nodeAddrs model.NodeAddrs
	// held are packets in total, at the last read that succeeded; zero after an outage began.
	held  [len(model.Families)]uint64
	peaks [2]int // of frontends and pools
}

// A pool without an endpoint.
type pool struct {
	key       model.Match
	service   sync.Object
	hold      time.Duration
	frontends int
	began     time.Time // packets that were held before are of another outage
	since     time.Time // when the first packet came, as far as it is known
	last      time.Time // when the last packet came
	over      bool      // this was reported last
	beyond    bool      // over because of the share of its namespace
	resumed   bool      // the hold was over before

	scaleToZero bool
}

func (p *pool) name() model.ServiceName {
	return model.ServiceName{Namespace: p.service.Namespace, Name: p.service.Name}
}

func newOutages() outages {
	return outages{
		frontends: map[model.Match]*pool{}, pools: map[model.Match]*pool{},
		waiting: map[*pool]struct{}{}, ended: map[*pool]time.Time{},
	}
}

// apply follows a commit.
func (o *outages) apply(c sync.Committed, now time.Time) {
	follow.Update(o.frontends, c, func(f *model.Frontend, before *pool, _ bool) (*pool, bool) {
		over := f.Verdict == model.VerdictReject && f.Pool.Hold > 0
		if f.Verdict != model.VerdictHold && !(over && (f.Pool.ScaleToZero || before != nil && before.beyond)) {
			return nil, false
		}
		p := o.pools[f.Pool.Key]
		if p == nil || p.service.UID != f.Pool.UID {
			s := f.Service
			p = &pool{
				key: f.Pool.Key, began: now.Add(-learnTime), over: over,
				service: sync.Object{Kind: "Service", Namespace: s.Namespace, Name: s.Name, UID: f.Pool.UID},
			}
			o.pools[p.key] = p
			o.held[p.key.Family] = 0
			if over { // before the Service scaled to zero
				o.ended[p] = now
			}
		}
		if p.hold, p.scaleToZero = f.Pool.Hold, f.Pool.ScaleToZero; p != before {
			o.resize(p, 1)
			o.release(before)
		}
		return p, true
	}, func(_ model.Match, p *pool) { o.release(p) })
	o.frontends, o.pools = model.Shrink(o.frontends, &o.peaks[0]), model.Shrink(o.pools, &o.peaks[1])
	o.nodeAddrs = c.NodeAddrs
}

// release takes a frontend from a pool, if any, whose outage ends with the last one.
func (o *outages) release(p *pool) {
	if p == nil {
		return
	}
	if o.resize(p, -1); p.frontends > 0 {
		return
	}
	delete(o.waiting, p)
	delete(o.ended, p)
	if p.beyond {
		o.beyond[p.key.Family]--
	}
	if o.pools[p.key] == p {
		delete(o.pools, p.key)
	}
}

// resize adds frontends to a pool.
func (o *outages) resize(p *pool, by int) {
	if p.frontends += by; !p.over || p.beyond {
		o.count(p, by)
	}
}

// count adds frontends of a pool to those that hold.
func (o *outages) count(p *pool, n int) {
	o.holding[p.key.Family] += n
	o.resized[p.key.Family] = true
}

// begin begins the hold of a pool again.
func (p *pool) begin(now time.Time) {
	p.over, p.beyond, p.began, p.since = false, false, now, time.Time{}
}

// packet notes the time of a held packet. It returns its pool, unless the packet is from before the
// outage, and whether it is the first one; stale if the frontend does not hold.
func (o *outages) packet(to model.Match, at time.Time) (p *pool, first, stale bool) {
	_, p, held := model.Find(o.frontends, o.nodeAddrs, to)
	if !held || p.over || at.Before(p.began) {
		return nil, false, !held || p.over
	}
	if first = p.since.IsZero(); first {
		p.since = at
		o.waiting[p] = struct{}{}
	}
	p.last = at
	return p, first, false
}

// overdue returns the pools whose hold is over, once each.
func (o *outages) overdue(now time.Time) (over []*pool) {
	for p := range o.waiting {
		if now.Sub(p.since) >= p.hold {
			over = append(over, p)
			p.over, o.ended[p] = true, now
			o.count(p, -p.frontends)
			delete(o.waiting, p)
		}
	}
	return sorted(over)
}

// resumable returns pools whose hold is over and begins again, once each. A Service that scales to
// zero makes no demand without held packets, so its pools hold again before earlier ones make none.
// Others that still hold by then were not rejected, since an endpoint came and left before the kernel
// had it: they are in an outage of their own.
func (o *outages) resumable(now time.Time) (again []*pool) {
	for p, at := range o.ended {
		if now.Sub(at) < resumeTime {
			continue
		}
		if p.scaleToZero {
			again = append(again, p)
		}
		p.begin(now)
		p.resumed = true
		o.count(p, p.frontends)
		delete(o.ended, p)
	}
	return sorted(again)
}

// applyShares returns pools that must not hold, and those that may again, once each. Where more
// frontends of a family would hold than capacity, of the namespaces that have more than their fair share
// the first pools by address hold.
func (o *outages) applyShares(now time.Time) (over, again []*pool) {
	for _, f := range model.Families {
		if !o.resized[f] || o.holding[f] <= capacity && o.beyond[f] == 0 {
			continue
		}
		o.resized[f] = false
		counts := map[string]int{}
		var all []*pool
		for _, p := range o.pools {
			if p.key.Family == f && (!p.over || p.beyond) {
				counts[p.service.Namespace] += p.frontends
				all = append(all, p)
			}
		}
		share := model.FairShare(capacity, slices.Collect(maps.Values(counts)))
		used := map[string]int{}
		for _, p := range sorted(all) {
			n := p.service.Namespace
			used[n] += p.frontends
			switch beyond := used[n] > share; {
			case beyond == p.beyond:
			case beyond:
				over = append(over, p)
				p.over, p.beyond = true, true
				o.beyond[f]++
				delete(o.waiting, p)
			default:
				again = append(again, p)
				p.begin(now)
				o.beyond[f]--
			}
		}
	}
	return over, again
}

func sorted(pools []*pool) []*pool {
	slices.SortFunc(pools, func(a, b *pool) int { return a.key.Compare(b.key) })
	return pools
}
