package leastconn

import (
	"maps"
	"net/netip"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

// Tracking is the kernel's connection tracking.
type Tracking interface {
	// EachTranslated calls begin, which discards earlier entries, and then fn for every
	// entry whose destination was translated.
	EachTranslated(begin func(), fn func(conntrack.Entry)) error
}

// An endpoint is one of any Service.
type endpoint struct {
	protocol model.Protocol
	addr     netip.AddrPort
}

type count struct {
	// active are the connections that are being opened or are open.
	active int
	// arrived is an estimate of the connections that began since the last observation,
	// including closed ones, which the kernel remembers for some time.
	arrived int
}

// maxSample is how many entries are remembered from one observation to the next, to
// recognize new ones. If there are more, a random part of them is remembered.
const maxSample = 1 << 15

type observer struct {
	tracking Tracking
	// seen are the numbers of the entries in the last observation that have no bit of mask;
	// nil before the first one.
	seen map[uint32]struct{}
	mask uint32
}

// observe reads connection tracking. Arrivals are not known after the first time.
func (o *observer) observe() (counts map[endpoint]count, arrivalsKnown bool, err error) {
	var seen map[uint32]struct{}
	err = o.tracking.EachTranslated(func() {
		counts, seen = map[endpoint]count{}, map[uint32]struct{}{}
	}, func(e conntrack.Entry) {
		k := endpoint{e.Protocol, e.Reply}
		c := counts[k]
		if e.Open {
			c.active++
		}
		if e.ID&o.mask == 0 {
			if _, known := o.seen[e.ID]; !known {
				c.arrived += int(o.mask) + 1
			}
			seen[e.ID] = struct{}{}
			o.limit(seen)
		}
		counts[k] = c
	})
	if err != nil {
		return nil, false, err
	}
	arrivalsKnown = o.seen != nil
	o.seen = seen
	if o.mask != 0 && len(seen) < maxSample/8 {
		o.forget() // all entries fit again
	}
	return counts, arrivalsKnown, nil
}

// limit halves the part of the entries that are remembered if there are too many.
func (o *observer) limit(seen map[uint32]struct{}) {
	if len(seen) > maxSample {
		o.mask = o.mask<<1 | 1
		maps.DeleteFunc(seen, func(id uint32, _ struct{}) bool { return id&o.mask != 0 })
	}
}

func (o *observer) forget() { o.seen, o.mask = nil, 0 }

// horizon is for how many periods arrivals are expected. A period passes until the next
// observation; the second one covers the delays of observing and programming, and an
// increase that was not foreseen.
const horizon = 2

// A rate estimates arrivals per second.
type rate struct{ last, mean float64 }

// add adds an observation: so many arrivals in a time.
func (r *rate) add(arrivals float64, in time.Duration) {
	r.last = arrivals / in.Seconds()
	r.mean = (r.mean + r.last) / 2
}

// expected returns the arrivals to expect within the horizon. After a burst, more are expected for
// some periods: too high a number makes control slower, a low one makes it overshoot.
func (r *rate) expected(period time.Duration) float64 {
	return max(r.last, r.mean) * horizon * period.Seconds()
}
