package nft

import (
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
	"kube-vmap/model/costtest"
)

// Clients are remembered by these numbers, whichever version assigned them.
func TestNumbersOfEndpointsAreStable(t *testing.T) {
	for endpoint, want := range map[string]string{
		"10.244.1.2:8080": "f6ca:3161", "10.244.2.7:80": "f489:7688",
		"[fd00:10:244:1::2]:8080": "f247:33e9", "[fd00:10:244:2::7]:80": "f0ed:4831",
	} {
		if got := ClassID(numbered([]netip.AddrPort{netip.MustParseAddrPort(endpoint)}, endpointHash)[0]); got != want {
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

// endpointsWithHash returns n endpoints whose hashes are in [from, to), sorted.
func endpointsWithHash(n int, from, to uint32) (list []netip.AddrPort) {
	for i := 0; len(list) < n; i++ {
		e := netip.AddrPortFrom(costAddr(10, i>>16), uint16(i))
		if h := endpointHash(e); from <= h && h < to {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, netip.AddrPort.Compare)
	return list
}

// Authors of EndpointSlices can choose endpoints whose hashes are near to each other. The
// limit is the time for the same number of other endpoints.
func TestNumbersOfEndpointsDiffer(t *testing.T) {
	pair := collidingEndpoints()
	alone, both := numbered(pair[1:], endpointHash), numbered(pair[:], endpointHash)
	if alone[0] != both[0] || both[1] != both[0]+1 {
		t.Errorf("%v have the numbers %x, and the second alone %x", pair, both, alone)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, list := range map[string][]netip.AddrPort{
		"any hashes":  endpointsWithHash(100_000, 0, numberMask+1),
		"near hashes": slices.Repeat(endpointsWithHash(4, 0, 1<<16), 1<<14),
		"the highest": slices.Repeat(endpointsWithHash(4, numberMask-1<<12, numberMask+1), 1<<12),
	} {
		start := costtest.ProcessorTime()
		all := numbered(list, endpointHash)
		took := costtest.ProcessorTime() - start
		slices.Sort(all)
		if n := len(slices.Compact(all)); n != len(list) || all[0] < numberMark || took > time.Second {
			t.Errorf("%s: %d endpoints have %d numbers from %x, after %v", name, len(list), n, all[0], took)
		}
	}
}

func TestNumbersAfterTheLastAreTheFirstFreeOnes(t *testing.T) {
	out := make([]uint32, 5)
	out[3], out[1] = numberMark, numberMark+2 // in the order of their hashes
	wrapNumbers(out, []uint64{3, 1}, []uint64{0, 2, 4})
	if want := []uint32{numberMark + 1, numberMark + 2, numberMark + 3, numberMark, numberMark + 4}; !slices.Equal(out, want) {
		t.Errorf("%x, want %x", out, want)
	}
}

// An endpoint that collides with a removed one gets another number, and its slot too.
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

// For each chain that looks something up, the kernel walks the whole map. There are as many
// chains as authors of Services use times.
func TestChainsOfEachTimeLookNothingUp(t *testing.T) {
	look := func(id ChainID) {
		for _, r := range sampleConfig.rules(id, everySet) {
			for _, s := range r {
				for _, e := range s.Expressions {
					if _, is := e.(*expr.Lookup); is {
						t.Errorf("%s %s: %s", FamilyName(id.Family), id.Name(), s.Text)
					}
				}
			}
		}
	}
	for _, f := range model.Families {
		for kind := ChainBalance; kind <= ChainExternalLocal; kind++ {
			for _, nodePort := range [...]bool{false, true} {
				look(ChainID{Family: f, Kind: kind, NodePort: nodePort, Method: pickSticky, N: 3, Seconds: 90})
			}
		}
	}
}
