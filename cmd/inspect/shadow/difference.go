package shadow

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
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
			for _, e := range found.Endpoints {
				t := o.endpoints[e.Address]
				t.probability += e.Probability
				t.masquerade = t.masquerade || e.Source != r.Packet.From
				t.remembered, t.sticks = max(t.remembered, e.Remembered), e.Sticks
				o.endpoints[e.Address] = t
			}
		}
	}
	switch {
	case len(r.Doubts) > 0:
		o.unknown = r.Doubts[0].String()
	case r.Unexplored != (path.Unexplored{}):
		o.unknown = "there are more endpoints than are compared"
	}
	return o
}

func (o *outcome) verdict() simulate.Verdict {
	best := simulate.Verdict(0)
	for v, p := range o.verdicts {
		if p > o.verdicts[best] {
			best = simulate.Verdict(v)
		}
	}
	return best
}

func (o *outcome) serves() bool { return len(o.endpoints) > 0 }

// String returns the outcome in a few words.
func (o *outcome) String() string {
	switch v := o.verdict(); v {
	case simulate.VerdictDelivered:
		return fmt.Sprintf("to %d endpoints", len(o.endpoints))
	case simulate.VerdictRefused:
		return "rejected with " + o.how
	case simulate.VerdictNotService:
		return "not translated"
	default:
		return v.String()
	}
}

// tolerance is how much shares may differ, in relation to a fair one: kube-proxy's iptables
// mode rounds probabilities to 31 bits after ten digits, one rule after the other.
const tolerance = 1e-3

func same(a, b float64) bool { return math.Abs(a-b) <= tolerance*max(a, b) }

func (o *outcome) missing(other *outcome) []netip.AddrPort { return o.filter(other, false) }

func (o *outcome) common(other *outcome) []netip.AddrPort { return o.filter(other, true) }

func (o *outcome) filter(other *outcome, has bool) []netip.AddrPort {
	keys := slices.SortedFunc(maps.Keys(o.endpoints), netip.AddrPort.Compare)
	return slices.DeleteFunc(keys, func(e netip.AddrPort) bool {
		_, found := other.endpoints[e]
		return found != has
	})
}

// A Difference is a case that kube-vmap would handle differently from the rules in the
// kernel.
type Difference struct {
	// Service is "namespace/name:port"; empty for what belongs to no Service.
	Service string `json:"service,omitempty"`
	// Frontend is the destination, as in "10.96.0.10:53/udp".
	Frontend string `json:"frontend"`
	Family   string `json:"family"`
	// Kind is what differs; one of the constants below.
	Kind string `json:"kind"`
	// Clients are where the packets came from: pod, node, outside, or an address.
	Clients []string `json:"clients"`
	// Ours is what kube-vmap would do, Theirs what the rules in the kernel do.
	Ours   string `json:"kubeVmap"`
	Theirs string `json:"kubeProxy"`
	// Intended is why kube-vmap differs on purpose; empty if it does not.
	Intended string `json:"intended,omitempty"`

	reason string // of Intended, without names of Services
}

// The kinds of differences.
const (
	KindVerdict      = "verdict"       // who is refused, dropped or ignored
	KindSourceRanges = "source ranges" // the same, by the client's address
	KindEndpoints    = "endpoints"
	KindShares       = "shares"
	KindMasquerade   = "masquerade"
	KindAffinity     = "affinity"
	KindUnknown      = "unknown" // the rules in the kernel are not understood
)

// Kinds are all kinds of differences.
var Kinds = [...]string{
	KindVerdict, KindSourceRanges, KindEndpoints, KindShares, KindMasquerade, KindAffinity,
	KindUnknown,
}

// key identifies a difference across rounds. Numbers in its texts may change.
func (d *Difference) key() string {
	return strings.Join([]string{d.Service, d.Frontend, d.Family, d.Kind, d.Intended}, "|")
}

// differences compares two outcomes. ranges reports whether the client's address decides.
func differences(ours, theirs *outcome, ranges bool) []Difference {
	var out []Difference
	add := func(kind, ours, theirs string) {
		out = append(out, Difference{Kind: kind, Ours: ours, Theirs: theirs})
	}
	if text := cmp.Or(theirs.unknown, ours.unknown); text != "" {
		add(KindUnknown, ours.String(), text)
		return out
	}
	kind := KindVerdict
	if ranges {
		kind = KindSourceRanges
	}
	if a, b := ours.verdict(), theirs.verdict(); a != b || !same(ours.verdicts[a], theirs.verdicts[a]) {
		add(kind, ours.String(), theirs.String())
		if !ours.serves() || !theirs.serves() {
			return out
		}
	} else if ours.how != theirs.how {
		add(kind, ours.String(), theirs.String())
	}
	return append(out, endpointDifferences(ours, theirs)...)
}

func endpointDifferences(ours, theirs *outcome) []Difference {
	var out []Difference
	more, fewer := ours.missing(theirs), theirs.missing(ours)
	if len(more)+len(fewer) > 0 {
		out = append(out, Difference{
			Kind: KindEndpoints, Ours: withOnly(ours, more), Theirs: withOnly(theirs, fewer),
		})
	}
	both := ours.common(theirs)
	for _, k := range []struct {
		kind   string
		differ func(a, b target) bool
		text   func(target, netip.AddrPort) string
	}{
		{KindShares, func(a, b target) bool {
			return len(more)+len(fewer) == 0 && !same(a.probability, b.probability)
		}, target.shareText},
		{KindMasquerade, func(a, b target) bool { return a.masquerade != b.masquerade }, target.sourceText},
		{KindAffinity, func(a, b target) bool {
			return a.remembered != b.remembered || a.sticks != b.sticks
		}, target.affinityText},
	} {
		i := slices.IndexFunc(both, func(e netip.AddrPort) bool { return k.differ(ours.endpoints[e], theirs.endpoints[e]) })
		if i >= 0 {
			e := both[i]
			out = append(out, Difference{
				Kind: k.kind, Ours: k.text(ours.endpoints[e], e), Theirs: k.text(theirs.endpoints[e], e),
			})
		}
	}
	return out
}

const maxListed = 3

// withOnly returns an outcome, with the first endpoints that only it has.
func withOnly(o *outcome, only []netip.AddrPort) string {
	if len(only) == 0 {
		return o.String()
	}
	var names []string
	for _, e := range only {
		names = append(names, e.String())
	}
	return o.String() + ", only here " + nodestatus.JoinFirst(names, len(names), maxListed)
}

func (t target) shareText(e netip.AddrPort) string {
	return fmt.Sprintf("%.3g %% to %s", 100*t.probability, e)
}

func (t target) sourceText(e netip.AddrPort) string {
	if t.masquerade {
		return fmt.Sprintf("%s sees the node", e)
	}
	return fmt.Sprintf("%s sees the client", e)
}

func (t target) affinityText(e netip.AddrPort) string {
	switch {
	case t.remembered == 0:
		return "none"
	case !t.sticks:
		return fmt.Sprintf("%s is remembered for %s, but not used", e, t.remembered)
	}
	return fmt.Sprintf("a client keeps its endpoint for %s", t.remembered)
}
