package status

import (
	"net/netip"
	stdsync "sync"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
)

// Tracking is what is needed of the kernel's connection tracking.
type Tracking interface {
	// Each calls fn for every entry, and begin before the first one, maybe more than
	// once.
	Each(begin func(), fn func(conntrack.Entry)) error
}

// Counter is what is needed of the kernel's rules.
type Counter interface {
	// Connections are those of a family that were counted so far.
	Connections(model.Family) ([]nft.ConnectionCount, error)
}

// Reading is what the kernel held at one moment.
type Reading struct {
	Connections []nft.ConnectionCount
	// At is when the reading began: all that came before is in it.
	At time.Time
}

// Active counts the connections that the kernel tracks now: to each address that was
// asked for, and from there to each endpoint. What is not translated is not counted:
// it leads to no endpoint. Nobody else may use the tracking.
func Active(t Tracking) func() (Reading, error) {
	return sparingly(func() ([]nft.ConnectionCount, error) { return active(t) })
}

// Counted reads what was counted so far, in both families. Nobody else may use the
// counter.
func Counted(c Counter) func() (Reading, error) {
	return sparingly(func() (all []nft.ConnectionCount, err error) {
		for _, f := range model.Families {
			list, err := c.Connections(f)
			if err != nil {
				return nil, err
			}
			all = append(all, list...)
		}
		return all, nil
	})
}

const (
	// goodFor is how long an answer of the kernel is good at least. To look at all that
	// it tracks costs it some 30 ms.
	goodFor = time.Second
	// rest is how much longer it rests than the last answer took, where there is much,
	// so that those who ask all the time cost no more than a tenth of a processor.
	rest = 9
)

// sparingly asks at most that often, and one at a time, however many want to know.
// What is returned is shared.
func sparingly(ask func() ([]nft.ConnectionCount, error)) func() (Reading, error) {
	var mu stdsync.Mutex // guards what follows, also while the kernel is asked
	var done time.Time   // the kernel rests from then on
	var took time.Duration
	var last Reading
	var err error
	return func() (Reading, error) {
		mu.Lock()
		defer mu.Unlock()
		if done.IsZero() || time.Since(done) >= max(goodFor, rest*took) {
			last.At = time.Now()
			last.Connections, err = ask()
			done = time.Now()
			took = done.Sub(last.At)
		}
		return last, err
	}
}

// flow is what is the same of many connections.
type flow struct {
	protocol        model.Protocol
	asked, endpoint netip.AddrPort
}

// active looks at all connections.
func active(t Tracking) ([]nft.ConnectionCount, error) {
	flows := map[flow]uint64{}
	err := t.Each(func() { clear(flows) }, func(e conntrack.Entry) {
		if e.Reply != e.Original {
			flows[flow{e.Protocol, e.Original, e.Reply}]++
		}
	})
	if err != nil {
		return nil, err
	}
	out := make([]nft.ConnectionCount, 0, len(flows))
	for f, n := range flows {
		asked := model.Match{Family: model.FamilyOf(f.asked.Addr()), Addr: f.asked.Addr(), Protocol: f.protocol, Port: f.asked.Port()}
		out = append(out, nft.ConnectionCount{Asked: asked, Endpoint: f.endpoint, Connections: n})
	}
	return out, nil
}
