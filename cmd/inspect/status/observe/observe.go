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
	EachTranslated(begin func(), fn func(conntrack.Translated)) error
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
	before, err := o.track()
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(min(d, Max)); ; {
		counted, err := o.count()
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
		after, err := o.track()
		if err != nil {
			return nil, err
		}
		o.compare(before, after, counted, now)
		if before = after; !time.Now().Before(end) {
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

// entries are the tracked connections at one moment.
type entries struct {
	replied map[uint32]bool // by number
	pairs   map[pair][]uint32
	aborted map[pair]int
}

// observer adds up what several reads show.
type observer struct {
	tracking   Tracking
	counter    Counter
	refused    map[pair]int
	unanswered map[pair]int // at the last read
	aborted    map[pair]int // at the last read
}

func (o *observer) track() (e entries, err error) {
	err = o.tracking.EachTranslated(func() {
		e = entries{map[uint32]bool{}, map[pair][]uint32{}, map[pair]int{}}
	}, func(t conntrack.Translated) {
		to := t.Original
		p := pair{model.Match{Family: t.Family(), Addr: to.Addr(), Protocol: t.Protocol, Port: to.Port()}, t.Reply}
		e.replied[t.ID] = t.Replied
		e.pairs[p] = append(e.pairs[p], t.ID)
		if t.Aborted {
			e.aborted[p]++
		}
	})
	return e, err
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

// compare adds what two reads differ by.
func (o *observer) compare(before, after entries, counted, now map[pair]uint64) {
	o.unanswered, o.aborted = map[pair]int{}, after.aborted
	for p, ids := range after.pairs {
		for _, id := range ids {
			if _, old := before.replied[id]; old && !after.replied[id] {
				o.unanswered[p]++
			}
		}
	}
	for p, n := range now {
		was, known := counted[p]
		if p.destination.Protocol != model.TCP || n <= was || !known && n > maxNew {
			continue
		}
		fresh := 0
		for _, id := range after.pairs[p] {
			if _, old := before.replied[id]; old {
				continue
			}
			fresh++
			if after.replied[id] {
				fresh = int(n) // it accepts connections
				break
			}
		}
		if ended := int(n-was) - fresh; ended > 0 {
			o.refused[p] += ended
		}
	}
}

// responses returns what was found, in no order.
func (o *observer) responses() []Response {
	all := map[pair]*Response{}
	at := func(p pair) *Response {
		if all[p] == nil {
			all[p] = &Response{Destination: p.destination, Endpoint: p.endpoint}
		}
		return all[p]
	}
	for p, n := range o.refused {
		at(p).Refused = n
	}
	for p, n := range o.aborted {
		at(p).Refused = n
	}
	for p, n := range o.unanswered {
		at(p).Unanswered = n
	}
	out := make([]Response, 0, len(all))
	for _, r := range all {
		out = append(out, *r)
	}
	return out
}
