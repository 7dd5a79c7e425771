package ruleset

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

func TestSetsGrowWithTheirServices(t *testing.T) {
	m := newMachine(t)
	p, _ := start(m, services(300))
	for _, n := range []int{384, 385, 1536, 1537, 5000, 10} {
		p.turn(services(n)) // compares what the kernel has with the state
		p.checkLikeFresh()
	}
	for _, f := range model.Families {
		services := p.read()[f].Sets["services"]
		if n := len(services.Elements); n != 10 || services.Shape.Size < 5000 {
			t.Errorf("family %s: map services has %d elements and a size of %d, want 10 and room for 5000",
				nft.FamilyName(f), n, services.Shape.Size)
		}
	}
}

func TestSmallSetKeepsItsSize(t *testing.T) {
	p, _ := start(newMachine(t), services(384))
	for _, op := range p.turn(services(383)) {
		if set, ok := op.(nft.AddSet); ok {
			t.Errorf("a set was rebuilt: %v", set)
		}
	}
}

// The map that grows still has elements that lead to the deleted chain.
func TestMapGrowsWhileAChainIsDeleted(t *testing.T) {
	p, _ := start(newMachine(t), services(300))
	next := services(900)
	for match, fe := range next.frontends {
		next.serve(match, fe.Pool.Cluster[:2]...)
	}
	batch := p.turn(next)
	for _, f := range model.Families {
		grown := nft.DeleteSet{Family: f, Name: "services"}
		gone := nft.DeleteChain{Family: f, Name: "lb-3"}
		if !contains(batch, grown) || !contains(batch, gone) {
			t.Errorf("the batch lacks %q or %q", grown, gone)
		}
	}
}

func TestSetGrowsWhileElementsAreDeleted(t *testing.T) {
	p, _ := start(newMachine(t), services(300))
	next := services(900)
	for i := range 100 {
		for _, f := range model.Families {
			delete(next.frontends, web(f, i))
		}
	}
	p.turn(next)
	p.checkLikeFresh()
}

func contains(b nft.Batch, op nft.Op) bool {
	return slices.ContainsFunc(b, func(o nft.Op) bool { return o.String() == op.String() })
}

func TestManyServiceCIDRs(t *testing.T) {
	p, _ := start(newMachine(t), services(1))
	next := p.world.clone()
	for i := range 500 {
		for _, f := range model.Families {
			a := address(clusterRanges[f], 2*i)
			prefix, err := a.Prefix(a.BitLen())
			if err != nil {
				t.Fatal(err)
			}
			next.cidrs = append(next.cidrs, prefix)
		}
	}
	p.turn(next)
	for _, f := range model.Families {
		if n := len(p.read()[f].Sets["service-cidrs"].Elements); n != 500 {
			t.Errorf("family %s: %d ranges, want 500", nft.FamilyName(f), n)
		}
	}
	if _, batch := start(p.machine, next); len(batch) > 0 {
		t.Errorf("a restart takes %d changes", len(batch))
	}
	next = p.world.clone()
	next.cidrs = nil
	p.turn(next)
}

// pools are the kinds of pools that outgrow slots, by the sets they are in.
var pools = map[string]func(*model.Frontend){
	"endpoints":      func(*model.Frontend) {},
	"sticky-numbers": func(f *model.Frontend) { f.Pool.Affinity = time.Hour },
	"local-endpoints": func(f *model.Frontend) {
		f.Policy, f.Pool.Local, f.Pool.Cluster = model.PolicyLocal, f.Pool.Cluster, nil
	},
	"local-sticky-numbers": func(f *model.Frontend) {
		f.Policy, f.Pool.Local, f.Pool.Cluster = model.PolicyLocal, f.Pool.Cluster, nil
		f.Pool.Affinity = time.Hour
	},
}

func TestServiceWithMoreEndpointsThanSlots(t *testing.T) {
	t.Parallel()
	for sets, change := range pools {
		t.Run(sets, func(t *testing.T) {
			t.Parallel()
			with := func(n int) *world {
				w := services(3)
				for _, f := range model.Families {
					var endpoints []netip.AddrPort
					for k := range n {
						endpoints = append(endpoints, endpoint(f, k))
					}
					w.serve(web(f, 1), endpoints...)
					service := w.frontends[web(f, 1)]
					change(&service)
					w.frontends[service.Match] = service
				}
				return w
			}
			p, _ := start(newMachine(t), with(255))
			for _, n := range []int{256, 255, 300, 257, 1, 1000, 3} {
				p.turn(with(n))
				p.checkLikeFresh()
				for _, f := range model.Families {
					if numbers, sticky := p.held[f].Sets[sets]; sticky { // no slots
						if len(numbers.Elements) != n {
							t.Errorf("family %s, %d endpoints: %s has %d", nft.FamilyName(f), n, sets, len(numbers.Elements))
						}
						continue
					}
					_, many := p.held[f].Sets[sets+"-many"]
					_, last := p.held[f].Sets[sets+"-254"]
					if many != (n > nft.MaxSlots) || last != (n == nft.MaxSlots) {
						t.Errorf("family %s, %d endpoints: there is %[3]s-many: %t, and %[3]s-254: %t", nft.FamilyName(f), n, sets, many, last)
					}
				}
			}
		})
	}
}

// With Maglev the number of slots does not depend on the number of endpoints, up to the
// size of the table.
func TestMaglevTableIsAddedAndDeleted(t *testing.T) {
	with := func(n int) *world {
		w := services(3)
		for _, f := range model.Families {
			var endpoints []netip.AddrPort
			for k := range n {
				endpoints = append(endpoints, endpoint(f, k))
			}
			w.serve(web(f, 1), endpoints...)
			w.frontends[web(f, 1)].Pool.Scheduler = model.SchedulerMaglev
		}
		return w
	}
	p, _ := start(newMachine(t), with(1))
	for _, n := range []int{2, 10, 9, 251, 252, 251, 1, 3, 0, 7} {
		p.turn(with(n))
		p.checkLikeFresh()
		for _, f := range model.Families {
			_, maglev := p.held[f].Chains["maglev-251"]
			if maglev != (n > 1 && n <= 251) {
				t.Errorf("family %s, %d endpoints: there is a table: %t", nft.FamilyName(f), n, maglev)
			}
		}
	}
}

// One chain reads both sets; its rules are written once.
func TestTwoSetsOfOneChainGrowTogether(t *testing.T) {
	p, _ := start(newMachine(t), services(0))
	next := services(900)
	for match := range next.frontends {
		next.serve(match)
	}
	batch := p.turn(next)
	for _, f := range model.Families {
		for _, name := range []string{"no-endpoint-services", "cluster-ips"} {
			if grown := (nft.DeleteSet{Family: f, Name: name}); !contains(batch, grown) {
				t.Errorf("the batch lacks %q", grown)
			}
		}
	}
	p.checkLikeFresh()
}

func TestSetsOfEveryKindGrowWithTheirServices(t *testing.T) {
	p, _ := start(newMachine(t), fullServices(10))
	for _, n := range []int{100, 500, 1500, 3} {
		p.turn(fullServices(n))
		p.checkLikeFresh()
	}
}
