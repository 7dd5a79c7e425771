package build

import (
	"net/netip"
	stdsync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
)

// Tracking lists the entries of the kernel's connection tracking.
type Tracking interface {
	// Each calls begin, which discards earlier entries, and then fn for every entry. A
	// dump that is interrupted begins again.
	Each(begin func(), fn func(conntrack.Entry)) error
}

// Counter reads the counters of the kernel's rules.
type Counter interface {
	// Connections returns the totals of a family.
	Connections(model.Family) ([]nft.ConnectionCount, error)
	// Uncounted returns the original destinations that are not counted now.
	Uncounted(model.Family) ([]model.Match, error)
}

// Sample is what the kernel counted at one moment.
type Sample struct {
	Connections []nft.ConnectionCount
	// FastPath are those of Connections that take a flowtable.
	FastPath []nft.ConnectionCount
	// Uncounted are the destinations that are not counted now. In the families of Full new
	// pairs of destination and endpoint are not.
	Uncounted []model.Match
	Full      [len(model.Families)]bool
	// At is when the read began: everything before is included.
	At time.Time
}

// ActiveCounts returns a function that counts the connections in connection tracking, by
// requested address and endpoint. Connections that are not translated have no endpoint
// and are not counted. The tracking must not be used otherwise.
func ActiveCounts(t Tracking) func() (Sample, error) {
	return cached(func() (Sample, error) { return countActive(t) })
}

// TotalCounts returns a function that reads the totals of both families. The counter must
// not be used otherwise.
func TotalCounts(c Counter) func() (Sample, error) {
	return cached(func() (all Sample, err error) {
		for _, f := range model.Families {
			list, err := c.Connections(f)
			if err != nil {
				return Sample{}, err
			}
			uncounted, err := c.Uncounted(f)
			if err != nil {
				return Sample{}, err
			}
			all.Connections = append(all.Connections, list...)
			all.Uncounted = append(all.Uncounted, uncounted...)
			all.Full[f] = nft.IsFull(len(list))
		}
		return all, nil
	})
}

const (
	// minCacheTime is how long a sample is reused at least. To list all tracked
	// connections takes the kernel some 30 ms.
	minCacheTime = time.Second
	// cacheFactor times the duration of a read is how long it is reused, if that is
	// longer, so that constant requests take no more than a tenth of a processor.
	cacheFactor = 9
)

// cached returns a function that reads at most that often, one read at a time, and
// returns the last sample meanwhile. Callers share it.
func cached(read func() (Sample, error)) func() (Sample, error) {
	var mu stdsync.Mutex // guards what follows, also during a read
	var done time.Time   // end of the last read
	var took time.Duration
	var last Sample
	var err error
	return func() (Sample, error) {
		mu.Lock()
		defer mu.Unlock()
		if done.IsZero() || time.Since(done) >= max(minCacheTime, cacheFactor*took) {
			start := time.Now()
			last, err = read()
			last.At = start
			done = time.Now()
			took = done.Sub(start)
		}
		return last, err
	}
}

// countActive counts all tracked connections.
func countActive(t Tracking) (out Sample, err error) {
	type flow struct {
		protocol            model.Protocol
		requested, endpoint netip.AddrPort
	}
	type count struct{ active, fastPath uint64 }
	flows := map[flow]count{}
	err = t.Each(func() { clear(flows) }, func(e conntrack.Entry) {
		if e.Reply == e.Original {
			return
		}
		key := flow{e.Protocol, e.Original, e.Reply}
		n := flows[key]
		if n.active++; e.Offloaded {
			n.fastPath++
		}
		flows[key] = n
	})
	if err != nil {
		return Sample{}, err
	}
	out.Connections = make([]nft.ConnectionCount, 0, len(flows))
	for f, n := range flows {
		c := nft.ConnectionCount{Endpoint: f.endpoint, Connections: n.active, Destination: model.Match{
			Family: model.FamilyOf(f.requested.Addr()), Addr: f.requested.Addr(), Protocol: f.protocol, Port: f.requested.Port(),
		}}
		out.Connections = append(out.Connections, c)
		if c.Connections = n.fastPath; n.fastPath > 0 {
			out.FastPath = append(out.FastPath, c)
		}
	}
	return out, nil
}
