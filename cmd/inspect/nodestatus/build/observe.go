package build

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/conntrack"
)

// How endpoints that refuse connections or do not answer are found, from what the kernel keeps
// anyway. Packets pay nothing for it, and nothing is kept between two requests.
//
//	tracked connections, counted connections
//	        | wait
//	counted connections, tracked connections --> []Response
//
// The kernel keeps no trace of a TCP connection that was answered with a reset: its entry
// is deleted with that packet (nf_conntrack_tcp_packet, "if only reply is a RST"). But the
// rules have counted it. So connections that were counted meanwhile, while no entry of the
// same frontend and endpoint is new, were refused. That needs counted connections, and finds
// what happens while it observes. The order of the reads makes sure that each counted
// connection has an entry, unless it is over.
//
// An aborted association of SCTP keeps its entry for ten seconds, in state CLOSED. Over UDP,
// a refusal is an ICMP error, which the entry does not show: refusal and silence are both
// an entry without a reply, for 30 seconds. Connections of TCP without any answer stay in
// SYN_SENT for two minutes. What has no reply counts if its entry existed before.
const (
	// window is how long to wait between two reads. Until then no entry of a connection that
	// was closed has ended: that takes at least ten seconds (nf_conntrack_tcp_timeout_close).
	window = 3 * time.Second
)

// ResponseTracking lists the connections that the kernel tracks, with their replies.
type ResponseTracking interface {
	EachTranslated(begin func(), fn func(conntrack.Entry)) error
}

// A Response is how an endpoint answered the connections to a frontend.
type Response struct {
	// Destination is the original destination: for a node port, with the node's address.
	Destination model.Match
	Endpoint    netip.AddrPort
	Refused     int // with a reset or an abort
	Unanswered  int // without any answer yet
}

// ObserveNode observes the network namespace of the process; see [Observe].
func ObserveNode(ctx context.Context, d time.Duration) (list []Response, err error) {
	k, err := kernel.Open(kernel.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	return Observe(ctx, conntrack.New(conntrack.Config{}), k, d)
}

// Observe observes for a time, at most [nodestatus.MaxObserved], and returns the endpoints that refused
// connections or did not answer.
func Observe(ctx context.Context, t ResponseTracking, c Counter, d time.Duration) ([]Response, error) {
	o := observer{tracking: t, counter: c, refused: map[pair]int{}}
	if err := o.track(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(min(d, nodestatus.MaxObserved)); ; {
		before, err := o.count()
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(min(window, time.Until(end))):
		case <-ctx.Done():
			return nil, ctx.Err()
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

type observer struct {
	tracking ResponseTracking
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

func (o *observer) responses() (out []Response) {
	for p := range o.refused {
		if _, found := o.states[p]; !found {
			o.states[p] = state{}
		}
	}
	for p, s := range o.states {
		if n := o.refused[p] + s.aborted; n+s.unanswered > 0 {
			out = append(out, Response{p.destination, p.endpoint, n, s.unanswered})
		}
	}
	return out
}
