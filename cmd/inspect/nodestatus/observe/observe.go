package observe

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/conntrack"
)

// Max is the longest observation.
const Max = 10 * time.Second

// window is how long to wait between two reads. Until then no entry of a connection that
// was closed has ended: that takes at least ten seconds (nf_conntrack_tcp_timeout_close).
const window = 3 * time.Second

// A Tracking lists the connections that the kernel tracks.
type Tracking interface {
	EachTranslated(begin func(), fn func(conntrack.Entry)) error
}

// A Counter reads the connections that rules have counted.
type Counter interface {
	Connections(model.Family) ([]nft.ConnectionCount, error)
}

// A Response is how an endpoint answered the connections to a frontend.
type Response struct {
	// Destination is the original destination: for a node port, with the node's address.
	Destination model.Match
	Endpoint    netip.AddrPort
	Refused     int // with a reset or an abort
	Unanswered  int // without any answer yet
}

// Node observes the network namespace of the process; see [Responses].
func Node(ctx context.Context, d time.Duration) (list []Response, err error) {
	k, err := kernel.Open(kernel.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	return Responses(ctx, conntrack.New(conntrack.Config{}), k, d)
}

// Responses observes for a time, at most [Max], and returns the endpoints that refused
// connections or did not answer.
func Responses(ctx context.Context, t Tracking, c Counter, d time.Duration) ([]Response, error) {
	o := observer{tracking: t, counter: c, refused: map[pair]int{}}
	if err := o.track(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(min(d, Max)); ; {
		before, err := o.count()
		if err != nil {
			return nil, err
		}
		if err := wait(ctx, min(window, time.Until(end))); err != nil {
			return nil, err
		}
		now, err := o.count()
		if err != nil {
			return nil, err
		}
		if err := o.track(); err != nil {
			return nil, err
		}
		if o.compare(before, now); !time.Now().Before(end) {
			return o.responses(), nil
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pair is what connections are counted by.
type pair struct {
	destination model.Match
	endpoint    netip.AddrPort
}

// state is what connection tracking shows of a pair.
type state struct {
	fresh      int  // entries that did not exist before
	accepts    bool // one of them has a reply
	unanswered int  // others without a reply
	aborted    int
}

// observer adds up what several reads show.
type observer struct {
	tracking Tracking
	counter  Counter
	ids      map[uint32]struct{} // numbers of the entries at the last read
	states   map[pair]state      // at the last read, compared with the one before
	refused  map[pair]int
}

// track reads connection tracking. There may be hundreds of thousands of entries, so only
// their numbers are kept.
func (o *observer) track() error {
	before := o.ids
	return o.tracking.EachTranslated(func() {
		o.ids, o.states = make(map[uint32]struct{}, len(before)), map[pair]state{}
	}, func(t conntrack.Entry) {
		o.ids[t.ID] = struct{}{}
		_, old := before[t.ID]
		if old && t.Replied && !t.Aborted {
			return // the usual one
		}
		to := t.Original
		p := pair{model.Match{Family: t.Family(), Addr: to.Addr(), Protocol: t.Protocol, Port: to.Port()}, t.Reply}
		s := o.states[p]
		switch {
		case t.Aborted:
			s.aborted++
		case old:
			s.unanswered++
		}
		if !old {
			s.fresh++
			s.accepts = s.accepts || t.Replied
		}
		o.states[p] = s
	})
}

func (o *observer) count() (map[pair]uint64, error) {
	out := map[pair]uint64{}
	for _, f := range model.Families {
		list, err := o.counter.Connections(f)
		if err != nil {
			return nil, err
		}
		for i := range list {
			out[pair{list[i].Destination, list[i].Endpoint}] = list[i].Connections
		}
	}
	return out, nil
}

// maxNew is how many connections a pair may have that was not counted before. The kernel's
// answer may lack pairs while its set grows; one with more connections was only missing.
const maxNew = 1000

// compare adds the connections that were counted between two reads, but have no entry.
func (o *observer) compare(before, now map[pair]uint64) {
	for p, n := range now {
		was, known := before[p]
		if p.destination.Protocol != model.TCP || n <= was || !known && n > maxNew {
			continue
		}
		if s := o.states[p]; !s.accepts && int(n-was) > s.fresh {
			o.refused[p] += int(n-was) - s.fresh
		}
	}
}

// responses returns what was found, in no order.
func (o *observer) responses() (out []Response) {
	for p, s := range o.states {
		if n := o.refused[p] + s.aborted; n+s.unanswered > 0 {
			out = append(out, Response{p.destination, p.endpoint, n, s.unanswered})
		}
	}
	for p, n := range o.refused {
		if _, found := o.states[p]; !found {
			out = append(out, Response{p.destination, p.endpoint, n, 0})
		}
	}
	return out
}
