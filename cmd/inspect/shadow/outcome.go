package shadow

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"kube-vmap/nft/simulate"
)

// An outcome is what a rule set does with a packet, whichever endpoint is picked.
type outcome struct {
	verdicts  [simulate.VerdictUnknown + 1]float64 // probability of each
	how       string                               // the answer of a refusal
	endpoints map[netip.AddrPort]target
	unknown   string // why it cannot be decided; empty if it can
}

// A target is an endpoint that a packet may go to.
type target struct {
	probability float64
	masquerade  bool
	remembered  time.Duration
	sticks      bool
}

func newOutcome(r simulate.Result) outcome {
	o := outcome{endpoints: map[netip.AddrPort]target{}}
	for _, found := range r.Outcomes {
		o.verdicts[found.Verdict] += found.Probability
		switch found.Verdict {
		case simulate.VerdictRefused:
			o.how = found.How
		case simulate.VerdictUnknown:
			o.unknown = found.How
		case simulate.VerdictDelivered:
			o.addEndpoints(r.Packet.From, found.Endpoints)
		}
	}
	switch {
	case len(r.Doubts) > 0:
		o.unknown = r.Doubts[0].String()
	case r.Unexplored != (simulate.Unexplored{}):
		o.unknown = "there are more endpoints than are compared"
	}
	return o
}

func (o *outcome) addEndpoints(from netip.Addr, list []simulate.Endpoint) {
	for _, e := range list {
		t := o.endpoints[e.Address]
		t.probability += e.Probability
		t.masquerade = t.masquerade || e.Source != from
		t.remembered, t.sticks = max(t.remembered, e.Remembered), e.Sticks
		o.endpoints[e.Address] = t
	}
}

// verdict returns the most probable verdict.
func (o *outcome) verdict() simulate.Verdict {
	best := simulate.Verdict(0)
	for v, p := range o.verdicts {
		if p > o.verdicts[best] {
			best = simulate.Verdict(v)
		}
	}
	return best
}

// serves reports whether the packet goes to an endpoint.
func (o *outcome) serves() bool { return len(o.endpoints) > 0 }

// String returns the outcome in a few words.
func (o *outcome) String() string {
	switch v := o.verdict(); v {
	case simulate.VerdictDelivered:
		return fmt.Sprintf("to %d endpoints", len(o.endpoints))
	case simulate.VerdictRefused:
		return "refused with " + o.how
	case simulate.VerdictNotService:
		return "not translated"
	default:
		return v.String()
	}
}

// tolerance is how much shares may differ, in relation to a fair one: kube-proxy's iptables
// mode rounds probabilities to 31 bits after ten digits, one rule after the other.
const tolerance = 1e-3

// same reports whether two shares are equal except for rounding.
func same(a, b float64) bool { return math.Abs(a-b) <= tolerance*max(a, b) }

// missing returns the endpoints that o has and the other one does not, sorted.
func (o *outcome) missing(other *outcome) []netip.AddrPort {
	var out []netip.AddrPort
	for e := range o.endpoints {
		if _, has := other.endpoints[e]; !has {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return out
}

// common returns the endpoints that both have, sorted.
func (o *outcome) common(other *outcome) []netip.AddrPort {
	keys := slices.SortedFunc(maps.Keys(o.endpoints), netip.AddrPort.Compare)
	return slices.DeleteFunc(keys, func(e netip.AddrPort) bool { _, has := other.endpoints[e]; return !has })
}
