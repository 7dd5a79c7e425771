package ruleset

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// few and lots of Services, in both families.
const (
	few  = 10
	lots = 10_000
)

// sameObjects asserts that few Services and a crowd have the same chains, rules and sets, as nft
// lists them without elements.
func sameObjects(small, large *proxy, f model.Family) {
	small.t.Helper()
	objects := func(m *machine) string {
		lines := strings.Split(installed(m.t).listTable(m, f, "-t"), "\n")
		return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "\t\tsize ") }), "\n")
	}
	if s, l := objects(small.machine), objects(large.machine); s != l {
		small.t.Errorf("%s: a crowd of Services has other objects than %d:%s", nft.FamilyName(f), few, firstDifference(l, s))
	}
}

func TestReplacedEndpointCostsTheSameAmongManyServices(t *testing.T) {
	small, _ := start(newMachine(t), fullServices(few))
	large, _ := start(newMachine(t), fullServices(crowd))
	for _, f := range model.Families {
		s, l := replaceEndpoint(small, f), replaceEndpoint(large, f)
		if s.Bytes != l.Bytes || s.Messages != l.Messages || s.Steps != 1 || l.Steps != 1 {
			t.Errorf("family %s: among %d Services it takes %+v, among %d %+v", nft.FamilyName(f), few, s, crowd, l)
		}
		if l.Messages != 6 { // begin, delete and add in endpoints-2 and, for retries, sticky-endpoints, end
			t.Errorf("family %s: it takes %d messages, want 6", nft.FamilyName(f), l.Messages)
		}
	}
}

// replaceEndpoint has a Service get another endpoint in place of its third.
func replaceEndpoint(p *proxy, f model.Family) nft.Applied {
	p.t.Helper()
	next := p.world.clone()
	next.edit(web(f, few/2), func(pool *model.Pool) {
		pool.Cluster = slices.Clone(pool.Cluster)
		pool.Cluster[2] = endpoint(f, 60000)
	})
	plan := p.rules.Plan(p.world.to(next))
	applied := p.apply(plan.Batch)
	p.rules.Commit(plan)
	p.check()
	return applied
}

// TestLargeFirstLoadIsDivided has more elements than one transaction takes.
func TestLargeFirstLoadIsDivided(t *testing.T) {
	m := newMachine(t)
	rules, batch := nft.Adopt(services(1).config, m.read(), services(lots).all())
	steps := len(batch.Steps(nft.StepElements))
	if applied := m.apply(batch); applied.Steps != steps || steps < 2 {
		t.Errorf("it took %d transactions, want %d", applied.Steps, steps)
	}
	same(t, "the kernel", m.read(), rules.Tables())
}

// TestChangeInStepsLeadsToTheSameTables takes every batch in the smallest steps,
// while Services of all kinds come, change and go.
func TestChangeInStepsLeadsToTheSameTables(t *testing.T) {
	p, _ := start(newMachine(t), services(few))
	for _, next := range []*world{fullServices(crowd), services(3), fullServices(few), services(crowd), services(0)} {
		plan := p.rules.Plan(p.world.to(next))
		for _, step := range plan.Batch.Steps(3) {
			p.machine.apply(step)
		}
		p.rules.Commit(plan)
		p.world = next
		p.check()
	}
}

// crowd is a number of Services of all kinds of addresses that need the same objects as
// few.
const crowd = 1000

// fullServices makes a world of n Services as [services] does, each with a node
// port and the address of a load balancer, both with source ranges, and an external IP,
// under Local policy and in turn with each way to choose an endpoint.
func fullServices(n int) *world {
	w := services(n)
	w.nodeAddrs = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8:2::1")}
	for i := range n {
		for _, f := range model.Families {
			inside := w.frontends[web(f, i)]
			inside.Pool.Scheduler, inside.Pool.RetryRefused = model.SchedulerRandom+model.Scheduler(i%3), true
			inside.Pool.Local, inside.Pool.Hairpin = inside.Pool.Cluster[:1], []netip.Addr{inside.Pool.Cluster[0].Addr()}
			service := []model.Frontend{inside}
			for kind := model.KindNodePort; kind <= model.KindLoadBalancerIP; kind++ {
				outside := inside
				outside.Kind, outside.Policy = kind, model.PolicyLocal
				outside.Match.Addr, outside.Match.Port = netip.Addr{}, uint16(20000+i)
				if kind != model.KindNodePort {
					outside.Match.Addr, outside.Match.Port = address(externalRanges[kind-model.KindExternalIP][f], i), 80
				}
				if kind != model.KindExternalIP {
					a := address(sourceRanges[f], 4*i)
					outside.Restricted = true
					outside.Sources = []netip.Prefix{netip.PrefixFrom(a, a.BitLen()-2), netip.PrefixFrom(a.Next(), a.BitLen())}
					outside.Denied = []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
				}
				service = append(service, outside)
			}
			w.put(fit(service)[1:]...)
		}
	}
	return w
}

func TestNoChainSetOrRulePerService(t *testing.T) {
	small, _ := start(newMachine(t), fullServices(few))
	large, _ := start(newMachine(t), fullServices(crowd))
	for _, f := range model.Families {
		sameObjects(small, large, f)
		sets := large.held[f].Sets
		for name, want := range map[string]int{
			"services": 3 * crowd, "local-services": 2 * crowd, "node-ports": crowd, "local-node-ports": crowd,
			"service-ips": 2 * crowd, "node-port-service-ips": crowd, "node-port-service-ports": crowd,
			"restricted": crowd, "refusals": 4 * crowd, "retried": 4 * crowd, "restricted-node-ports": crowd,
			"allowed-sources-" + strconv.Itoa(address(externalRanges[0][f], 0).BitLen()-2): 2 * crowd, // one of two ranges contains the other
			"denied-sources-" + strconv.Itoa(address(externalRanges[0][f], 0).BitLen()):    2 * crowd,
			"cluster-ips": crowd, "node-ips": 1, "endpoints-2": crowd, "local-endpoints-0": crowd,
		} {
			if n := len(sets[name].Elements); n != want {
				t.Errorf("family %s: %s holds %d elements, want %d", nft.FamilyName(f), name, n, want)
			}
		}
	}
	// So their deletion deletes elements only.
	batch := large.turn(fullServices(few))
	if n := batch.Counts().Objects; n != 0 {
		t.Errorf("%d Services go, and with them %d objects", crowd-few, n)
	}
}

// stickyServices are n Services that remember their clients for as long, and
// have k endpoints in common.
func stickyServices(n, k int, affinity func(int) time.Duration) *world {
	w := services(n)
	for i := range n {
		for _, f := range model.Families {
			w.edit(web(f, i), func(pool *model.Pool) {
				pool.Cluster, pool.Affinity = nil, affinity(i)
				for j := range k {
					pool.Cluster = append(pool.Cluster, endpoint(f, j))
				}
			})
		}
	}
	return w
}

// Session affinity obeys the law, too: chains differ by the class of the number of endpoints
// and by that of the time that clients are remembered.
func TestNoObjectPerStickyEndpoint(t *testing.T) {
	same := func(int) time.Duration { return time.Hour }
	small, _ := start(newMachine(t), stickyServices(few, 7, same))
	p, _ := start(newMachine(t), stickyServices(crowd, 7, same))
	for _, f := range model.Families {
		sameObjects(small, p, f)
	}
	check := func(what string, want ...string) {
		t.Helper()
		for _, f := range model.Families {
			var names []string
			for name := range p.held[f].Chains {
				if strings.HasPrefix(name, "sticky-") {
					names = append(names, name)
				}
			}
			if slices.Sort(names); !slices.Equal(names, want) {
				t.Errorf("family %s: %s have the chains %v, want %v", nft.FamilyName(f), what, names, want)
			}
		}
	}
	one := []string{"sticky-8-3600s", "sticky-client", "sticky-endpoint", "sticky-full-8", "sticky-new", "sticky-pick-8"}
	check("Services of 7 endpoints", one...)
	for _, f := range model.Families {
		next := p.world.clone()
		next.edit(web(f, 3), func(pool *model.Pool) {
			pool.Cluster = slices.Clone(pool.Cluster)
			pool.Cluster[6] = endpoint(f, 60000)
		})
		if c := p.turn(next).Counts(); c != (nft.Counts{Added: 2, Deleted: 2}) {
			t.Errorf("family %s: a replaced endpoint takes %+v", nft.FamilyName(f), c)
		}
	}
	p.turn(stickyServices(few, 8, same))
	check("few Services with one endpoint more", one...)
	p.turn(stickyServices(few, 8, func(i int) time.Duration { return time.Duration(1+i%3) * time.Hour }))
	check("Services of three times", append([]string{"sticky-8-10800s", one[0], "sticky-8-7200s"}, one[1:]...)...)
	p.turn(services(few))
	check("Services without affinity")
	for _, f := range model.Families {
		if _, left := p.held[f].Sets["affinity"]; left {
			t.Errorf("family %s: the map of clients is left over", nft.FamilyName(f))
		}
	}
}

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
