package ruleset

import (
	"net/netip"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// TestSetsGrowWithTheirServices has sets of every kind grow while chains and elements are
// deleted, and those that one chain reads together.
func TestSetsGrowWithTheirServices(t *testing.T) {
	p, _ := start(newMachine(t), fullServices(10))
	fewer, none := services(900), services(900)
	for match, fe := range fewer.frontends {
		fewer.serve(match, fe.Pool.Cluster[:2]...)
		none.serve(match)
	}
	without := fullServices(1500)
	for i := range 100 {
		for _, f := range model.Families {
			without.remove(web(f, i))
		}
	}
	for _, next := range []*world{fullServices(300), without, fullServices(3), services(300), fewer, services(0), none} {
		p.turn(next) // compares what the kernel has with the state
	}
	for _, op := range p.turn(services(800)) {
		if set, ok := op.(nft.AddSet); ok && set.Size < 900 && set.Set.Kind == nft.SetServices {
			t.Errorf("a set was rebuilt: %v", set)
		}
	}
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
