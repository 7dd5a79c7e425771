package ruleset

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// limited is a world with the load balancer of a Service of every protocol that
// takes connections from some ranges only.
func limited(f model.Family, sources ...string) *world {
	w := newWorld()
	for _, p := range model.Protocols {
		pool := &model.Pool{Key: web(f, 0), Cluster: []netip.AddrPort{endpoint(f, 0)}}
		pool.Key.Protocol = p
		inside := model.Frontend{Match: pool.Key, Pool: pool}
		inside.Service.Namespace, inside.Service.Name, inside.Service.Protocol = "shop", "web", p
		outside := inside
		outside.Kind, outside.Restricted = model.KindLoadBalancerIP, true
		outside.Match.Addr = address(externalRanges[1][f], 7)
		for _, s := range sources {
			outside.Sources = append(outside.Sources, netip.MustParsePrefix(s))
		}
		w.put(fit([]model.Frontend{inside, outside})...)
	}
	return w
}

// sourceSteps are ranges that a Service has one after the other.
var sourceSteps = [2][]string{
	model.IPv4: {
		"10.1.2.0/24", "10.1.0.0/16", "10.1.2.3/32", "10.0.0.0/8 10.1.0.0/16 172.16.0.0/12", "10.1.0.0/16 172.16.0.0/16",
		"10.0.0.0/9 10.128.0.0/9", "10.0.0.0/8", "10.0.0.0/9", "10.128.0.0/9 10.0.0.0/10 10.64.0.0/10", "0.0.0.0/1 128.0.0.0/1",
		"0.0.0.0/1 255.255.255.255/32 128.0.0.0/32", "", "255.255.255.254/31 0.0.0.0/32", "10.1.2.4/30 10.1.2.0/30", "10.1.2.0/29",
	},
	model.IPv6: {
		"fd00:1:2::/48", "fd00:1::/32", "fd00:1:2::3/128", "fd00::/16 fd00:1::/32 2001:db8::/48", "fd00:1::/32 2001:db8::/64",
		"fd00::/17 fd00:8000::/17", "fd00::/16", "fd00::/17", "fd00:8000::/17 fd00::/18 fd00:4000::/18", "::/1 8000::/1",
		"::/1 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128 8000::/128", "",
		"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127 ::/128", "fd00::4/126 fd00::/126", "fd00::/125",
	},
}

// In one transaction each the ranges become wider, narrower, halves and wholes of
// each other: the kernel takes no range that lies within one it has, and none that
// another one overlaps.
func TestSourceRangesChangeInOneTransaction(t *testing.T) {
	t.Parallel()
	for _, f := range model.Families {
		t.Run(nft.FamilyName(f), func(t *testing.T) {
			t.Parallel()
			for first, from := range sourceSteps[f] {
				p, _ := start(newMachine(t), limited(f, strings.Fields(from)...))
				for i := range sourceSteps[f] {
					to := sourceSteps[f][(first+i)%len(sourceSteps[f])]
					p.turn(limited(f, strings.Fields(to)...)) // compares what the kernel has with the state
					if first == 0 {
						p.checkSources(f, to)
					}
				}
			}
		})
	}
}

// checkSources asks nft whether the kernel finds the first and the last address of
// each range, and none beside them.
func (p *proxy) checkSources(f model.Family, text string) {
	p.t.Helper()
	var ranges []netip.Prefix
	for _, s := range strings.Fields(text) {
		ranges = append(ranges, netip.MustParsePrefix(s))
	}
	for _, r := range ranges {
		last := model.LastAddr(r)
		for _, a := range []netip.Addr{r.Addr(), last, r.Addr().Prev(), last.Next()} {
			if !a.IsValid() {
				continue
			}
			in := slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
			if found := p.allows(f, a, ranges); found != in {
				p.t.Fatalf("of %q, %s is found: %t, want %t", text, a, found, in)
			}
		}
	}
}

// allows asks nft whether one of the sets of the ranges' lengths has the address, cut
// to that length.
func (p *proxy) allows(f model.Family, a netip.Addr, ranges []netip.Prefix) bool {
	for _, r := range ranges {
		cut, err := a.Prefix(r.Bits())
		if err != nil {
			p.t.Fatal(err)
		}
		set := nft.SetID{Family: f, Kind: nft.SetAllowedSources, Slot: uint16(r.Bits())}.Name()
		element := fmt.Sprintf("{ %s . %s . udp . 80 }", cut.Addr(), address(externalRanges[1][f], 7))
		if installed(p.t).run(p.machine, "", "get", "element", nft.FamilyName(f), nft.TableName, set, element).err == nil {
			return true
		}
	}
	return false
}
