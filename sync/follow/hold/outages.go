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
	frontends map[model.Match]*pool // those that hold, or may again
	pools     map[model.Match]*pool // of these frontends, by key
	waiting   map[*pool]struct{}    // those that have clients, and are not over
	ended     map[*pool]time.Time   // when those that are over were reported
	beyond    int                   // pools
	resized   bool                  // there are other pools that may hold, or other addresses of the node
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
	nodePorts int       // of these
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
			o.resize(p, f.Match, 1)
			o.release(before, f.Match)
		}
		return p, true
	}, func(m model.Match, p *pool) { o.release(p, m) })
	o.frontends, o.pools = model.Shrink(o.frontends, &o.peaks[0]), model.Shrink(o.pools, &o.peaks[1])
	if !slices.Equal(o.nodeAddrs, c.NodeAddrs) {
		o.nodeAddrs, o.resized = c.NodeAddrs, true
	}
}

// release takes a frontend from a pool, if any, whose outage ends with the last one.
func (o *outages) release(p *pool, m model.Match) {
	if p == nil {
		return
	}
	if o.resize(p, m, -1); p.frontends > 0 {
		return
	}
	delete(o.waiting, p)
	delete(o.ended, p)
	if p.beyond {
		o.beyond--
	}
	if o.pools[p.key] == p {
		delete(o.pools, p.key)
	}
}

// resize adds a frontend to a pool, or removes one.
func (o *outages) resize(p *pool, m model.Match, by int) {
	if o.resized, p.frontends = true, p.frontends+by; !m.Addr.IsValid() {
		p.nodePorts += by
	}
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
		delete(o.ended, p)
	}
	return sorted(again)
}

// applyShares returns pools that must not hold, and those that may again, once each. Where more
// frontends of a family would hold than capacity, of the namespaces that have more than their fair share
// the first pools by address hold. Those that are over count, too, as they will hold again. A node port
// counts at each address of the node.
func (o *outages) applyShares(now time.Time) (over, again []*pool) {
	if !o.resized || o.beyond == 0 && len(o.frontends)*max(len(o.nodeAddrs), 1) <= capacity {
		return nil, nil
	}
	o.resized = false
	for _, f := range model.Families {
		addrs := 0
		for _, a := range o.nodeAddrs {
			if model.FamilyOf(a) == f {
				addrs++
			}
		}
		weight := func(p *pool) int { return p.frontends + p.nodePorts*(addrs-1) }
		weights := map[string]int{}
		var all []*pool
		for _, p := range o.pools {
			if p.key.Family == f {
				weights[p.service.Namespace] += weight(p)
				all = append(all, p)
			}
		}
		share := model.FairShare(capacity, slices.Collect(maps.Values(weights)))
		used := map[string]int{}
		for _, p := range sorted(all) {
			n := p.service.Namespace
			used[n] += weight(p)
			switch beyond := used[n] > share; {
			case beyond == p.beyond:
			case beyond:
				if !p.over {
					over = append(over, p)
				}
				p.over, p.beyond = true, true
				o.beyond++
				delete(o.waiting, p)
				delete(o.ended, p)
			default:
				again = append(again, p)
				p.begin(now)
				o.beyond--
			}
		}
	}
	return over, again
}

func sorted(pools []*pool) []*pool {
	slices.SortFunc(pools, func(a, b *pool) int { return a.key.Compare(b.key) })
	return pools
}
