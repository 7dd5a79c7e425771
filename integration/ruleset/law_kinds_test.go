package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// crowd is a number of Services of all kinds of addresses that need the same objects as
// few.
const crowd = 1000

// fullServices makes a world of n Services as [services] does, each with a node
// port, the address of a load balancer with source ranges, and an external IP,
// under Local policy and in turn with each way to choose an endpoint.
func fullServices(n int) *world {
	w := services(n)
	w.nodeAddrs = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8:2::1")}
	for i := range n {
		for _, f := range model.Families {
			inside := w.frontends[web(f, i)]
			inside.Pool.Scheduler = model.SchedulerRandom + model.Scheduler(i%3)
			inside.Pool.Local, inside.Pool.Hairpin = inside.Pool.Cluster[:1], []netip.Addr{inside.Pool.Cluster[0].Addr()}
			service := []model.Frontend{inside}
			for kind := model.KindNodePort; kind <= model.KindLoadBalancerIP; kind++ {
				outside := inside
				outside.Kind, outside.Policy = kind, model.PolicyLocal
				outside.Match.Addr, outside.Match.Port = netip.Addr{}, uint16(20000+i)
				if kind != model.KindNodePort {
					outside.Match.Addr, outside.Match.Port = address(externalRanges[kind-model.KindExternalIP][f], i), 80
				}
				if kind == model.KindLoadBalancerIP {
					a := address(sourceRanges[f], 4*i)
					outside.Restricted = true
					outside.Sources = []netip.Prefix{netip.PrefixFrom(a, a.BitLen()-2), netip.PrefixFrom(a.Next(), a.BitLen())}
				}
				service = append(service, outside)
			}
			w.put(fit(service)[1:]...)
		}
	}
	return w
}

func TestNoObjectPerAddress(t *testing.T) {
	small, _ := start(newMachine(t), fullServices(few))
	large, _ := start(newMachine(t), fullServices(crowd))
	for _, f := range model.Families {
		s, l := objects(small.machine, f), objects(large.machine, f)
		if !slices.Equal(s, l) {
			t.Errorf("family %s with %d Services has\n%s\nand with %d\n%s",
				nft.FamilyName(f), few, strings.Join(s, "\n"), crowd, strings.Join(l, "\n"))
		}
		sets := large.held[f].Sets
		for name, want := range map[string]int{
			"services": 3 * crowd, "local-services": 2 * crowd, "node-ports": crowd, "local-node-ports": crowd,
			"service-ips": 2 * crowd, "node-port-service-ips": crowd, "node-port-service-ports": crowd,
			"restricted": crowd, "allowed-sources-" + strconv.Itoa(address(externalRanges[0][f], 0).BitLen()-2): crowd, // one of two ranges contains the other
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

func TestChangeOfManyAddressesIsOneElement(t *testing.T) {
	p, _ := start(newMachine(t), fullServices(crowd))
	for _, f := range model.Families {
		next := p.world.clone()
		next.edit(web(f, few), func(pool *model.Pool) {
			pool.Cluster = slices.Clone(pool.Cluster)
			pool.Cluster[2] = endpoint(f, 60000)
		})
		if c := p.turn(next).Counts(); c != (nft.Counts{Added: 1, Deleted: 1}) {
			t.Errorf("family %s: a replaced endpoint takes %+v", nft.FamilyName(f), c)
		}
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

func TestServicesShareTheChainsOfStickyEndpoints(t *testing.T) {
	same := func(int) time.Duration { return time.Hour }
	p, _ := start(newMachine(t), stickyServices(100, 7, same))
	check := func(what string, want int) {
		t.Helper()
		for _, f := range model.Families {
			var names []string
			for name := range p.held[f].Chains {
				if strings.HasPrefix(name, "sticky-") && strings.Contains(name, "s-tcp-") {
					names = append(names, name)
				}
			}
			if len(names) != want {
				t.Errorf("family %s: %s have the chains %v, want %d", nft.FamilyName(f), what, names, want)
			}
		}
	}
	check("100 Services with 7 endpoints in common", 7)
	p.turn(stickyServices(1, 7, same))
	check("one Service with 7 endpoints", 7)
	p.turn(stickyServices(100, 8, same))
	check("100 Services with one endpoint more", 8)
	p.turn(stickyServices(100, 8, func(i int) time.Duration { return time.Duration(1+i%3) * time.Hour }))
	check("Services of three times", 24)
	w := stickyServices(100, 8, same)
	for i := range 99 {
		for _, f := range model.Families {
			w.remove(web(f, i))
		}
	}
	p.turn(w)
	check("the last of them", 8)
	p.turn(services(100))
	check("Services without affinity", 0)
	for _, f := range model.Families {
		if _, left := p.held[f].Sets["affinity"]; left {
			t.Errorf("family %s: the map of clients is left over", nft.FamilyName(f))
		}
	}
}

// Chains of one endpoint differ by port, protocol and time, and by whose
// endpoints they are.
func TestStickyChainPerPortProtocolAndTime(t *testing.T) {
	w, err := parseWorld(`
		clusterip 10.96.0.11:80/tcp+udp+sctp      shop/web always affinity=1h local=1 -> 10.244.1.2:80
		clusterip [fd00:10:96::b]:80/tcp+udp+sctp shop/web always affinity=1h local=1 -> [fd00:10:244:1::2]:80
		nodeport 30080/tcp+udp+sctp shop/web policy=local
		clusterip 10.96.0.12:80/tcp+udp+sctp      shop/other always affinity=1h -> 10.244.1.2:81
		clusterip [fd00:10:96::c]:80/tcp+udp+sctp shop/other always affinity=1h -> [fd00:10:244:1::2]:81`)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := start(newMachine(t), w)
	for f, address := range map[model.Family]string{model.IPv4: "10.244.1.2", model.IPv6: "fd00.10.244.1..2"} {
		var want, got []string
		for _, protocol := range model.Protocols {
			name := fmt.Sprintf("sticky-3600s-%s-%s-", protocol, address)
			want = append(want, name+"80", name+"81", "local-"+name+"80")
		}
		for name := range p.held[f].Chains {
			if strings.Contains(name, "sticky-3600s-") {
				got = append(got, name)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("family %s has the chains\n%v\nwant\n%v", nft.FamilyName(f), got, want)
		}
	}
}
