package nft

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

// Clients are remembered by these numbers, whichever version assigned them.
func TestNumbersOfEndpointsAreStable(t *testing.T) {
	for endpoint, want := range map[string]string{
		"10.244.1.2:8080": "f6ca:3161", "10.244.2.7:80": "f489:7688",
		"[fd00:10:244:1::2]:8080": "f247:33e9", "[fd00:10:244:2::7]:80": "f0ed:4831",
	} {
		if got := classID(numbered([]netip.AddrPort{netip.MustParseAddrPort(endpoint)})[0]); got != want {
			t.Errorf("%s has number %s, want %s", endpoint, got, want)
		}
	}
}

// collidingEndpoints are two endpoints with the same hash, in their order.
func collidingEndpoints() [2]netip.AddrPort {
	seen := map[uint32]netip.AddrPort{}
	for i := 0; ; i++ {
		e := netip.AddrPortFrom(costAddr(10, i), 80)
		if other, twice := seen[endpointHash(e)]; twice {
			return [2]netip.AddrPort{other, e}
		}
		seen[endpointHash(e)] = e
	}
}

func TestNumbersOfEndpointsDiffer(t *testing.T) {
	pair := collidingEndpoints()
	alone, both := numbered(pair[1:]), numbered(pair[:])
	if alone[0] != both[0] || both[1] != both[0]+1 {
		t.Errorf("%v have the numbers %x, and the second alone %x", pair, both, alone)
	}
	last := both[0]&^numberMask | numberMask
	if next := (last + 1) & numberMask; next != 0 {
		t.Errorf("after the last number comes %x", next)
	}
	var list []netip.AddrPort
	for i := range 100_000 {
		list = append(list, netip.AddrPortFrom(costAddr(10, i), 80))
	}
	all := numbered(list)
	for _, n := range all {
		if n&numberMark != numberMark {
			t.Fatalf("%x is not marked", n)
		}
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != len(list) {
		t.Errorf("%d endpoints have %d numbers", len(list), n)
	}
}

// An endpoint that collides with one that goes gets another number, and its slot too.
func TestChangedNumberOfAnEndpointIsPlanned(t *testing.T) {
	pair := collidingEndpoints()
	state := func(endpoints ...netip.AddrPort) Change {
		c := Change{Set: costFrontends(0, 1, 0, 0, 0)}
		c.Set[0].Verdict, c.Set[0].Pool.Cluster, c.Set[0].Pool.Affinity = 0, endpoints, 1e9
		return c
	}
	r, _ := Adopt(sampleConfig, Tables{}, state(pair[:]...))
	held := heldBy(r)
	held.apply(r.Plan(state(pair[1])).Batch)
	fresh, _ := Adopt(sampleConfig, Tables{}, state(pair[1]))
	if want := heldBy(fresh); !reflect.DeepEqual(held, want) {
		t.Errorf("the kernel holds %v, want %v", held, want)
	}
}

// held is what a kernel holds in its sets.
type held map[SetID]map[Key]Value

func heldBy(r *Ruleset) held {
	h := held{}
	for id, list := range r.Elements() {
		h[id] = map[Key]Value{}
		for _, e := range list {
			h[id][e.Key] = e.Value
		}
	}
	return h
}

func (h held) apply(b Batch) {
	for _, op := range b {
		if op, deletes := op.(DeleteElements); deletes {
			for _, e := range op.Elements {
				delete(h[op.Set], e.Key)
			}
		}
		if id, list, adds := AddedElements(op); adds {
			for _, e := range list {
				h[id][e.Key] = e.Value
			}
		}
	}
}
