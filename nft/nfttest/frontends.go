// Package nfttest makes frontends of every kind for the tests of nft and its packages.
package nfttest

import (
	"fmt"
	"net/netip"
	"time"

	"kube-vmap/model"
)

// ServiceCIDRs are ranges of both families, with neighbours and up to the last address.
var ServiceCIDRs = []netip.Prefix{
	netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("10.97.0.0/16"), netip.MustParsePrefix("255.255.255.0/24"),
	netip.MustParsePrefix("fd00:10:96::/112"), netip.MustParsePrefix("ffff::/16"),
}

// NodeAddrs are addresses of both families that serve node ports.
var NodeAddrs = []netip.Addr{
	netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8:2::1"),
}

// Frontends are the frontends of n Services of every kind in both families: see
// [Service].
func Frontends(n int) []model.Frontend {
	var out []model.Frontend
	for i := range n {
		for _, f := range model.Families {
			out = append(out, Service(f, i)...)
		}
	}
	return out
}

// Service returns the frontends of Service number i: with one to five endpoints, refused,
// dropped, held, or with more endpoints than slots; of every scheduler, with affinity or
// without; and reached from inside only, or by all kinds of addresses, under either
// policy.
func Service(f model.Family, i int) []model.Frontend {
	pool := poolOf(f, i)
	inside := model.Frontend{Match: pool.Key, Masquerade: model.Masquerade(i % 3), Pool: pool}
	inside.Service.Namespace, inside.Service.Name, inside.Service.Port = "shop", fmt.Sprint("web-", i), "http"
	policy, outsidePolicy := policies(i)
	inside.Policy = policy
	inside.Verdict = Verdict(inside.Policy, pool)
	if i%11 == 8 {
		inside.Verdict = model.VerdictDrop
	}
	out := []model.Frontend{inside}
	if !isReachedFromOutside(i) {
		return out
	}
	for kind := model.KindNodePort; kind <= model.KindLoadBalancerIP; kind++ {
		outside := inside
		outside.Kind, outside.Policy = kind, outsidePolicy
		outside.Verdict = Verdict(outside.Policy, pool)
		outside.Masquerade = model.MasqueradeNever
		if outside.Policy == model.PolicyCluster {
			outside.Masquerade = model.MasqueradeAlways
		}
		outside.Match.Addr = Addr(f, [...]byte{model.KindExternalIP: 198, model.KindLoadBalancerIP: 203}[kind], i)
		if kind == model.KindNodePort {
			outside.Match.Addr, outside.Match.Port = netip.Addr{}, uint16(30000+i)
		}
		if i%4 == 1 && (kind == model.KindLoadBalancerIP || i%8 == 1) {
			outside.Restricted, outside.Sources = true, sources(f, i)
		}
		if i%8 == 1 {
			outside.Denied = outside.Sources[:3]
		}
		if i%16 == 1 {
			outside.Sources = []netip.Prefix{netip.PrefixFrom(outside.Sources[0].Addr(), 0).Masked()}
		}
		out = append(out, outside)
	}
	return out
}

// moreThanSlots is one more than [nft.MaxSlots], which this package does not import since
// the tests of nft import it.
const moreThanSlots = 256

// poolOf is the pool of Service number i.
func poolOf(f model.Family, i int) *model.Pool {
	p := &model.Pool{
		Key: model.Match{
			Family: f, Addr: Addr(f, 96, i), Protocol: model.Protocols[i%3], Port: uint16(80 + i%2),
		},
		Scheduler: model.SchedulerRandom + model.Scheduler(i%4),
	}
	endpoints := 1 + i%5
	switch {
	case i%11 == 7 || i%11 == 8:
		endpoints = 0
		p.Hold = time.Duration(i%2) * time.Minute
	case i == 9 || i == 10:
		endpoints = moreThanSlots
	}
	p.RetryRefused = p.Key.Protocol == model.TCP && i%4 > 1
	if i%7 == 3 {
		p.Affinity = time.Duration(1+i%3) * time.Hour
	}
	for k := range endpoints {
		pod := Addr(f, 244, i*5+k)
		p.Cluster = append(p.Cluster, netip.AddrPortFrom(pod, 8080))
	}
	if endpoints > 0 {
		p.Hairpin = []netip.Addr{p.Cluster[0].Addr()}
	}
	inside, outside := policies(i)
	if i%5 != 4 && (inside == model.PolicyLocal || isReachedFromOutside(i) && outside == model.PolicyLocal) {
		p.Local = p.Cluster[:(endpoints+1)/2]
	}
	if inside == model.PolicyLocal && !isReachedFromOutside(i) {
		p.Cluster = nil
	}
	return p
}

// policies are the policies of Service number i for traffic from inside
// and from outside.
func policies(i int) (inside, outside model.TrafficPolicy) {
	return model.TrafficPolicy(i / 2 % 2), model.TrafficPolicy(i % 2)
}

// isReachedFromOutside reports whether Service number i has addresses for traffic from
// outside.
func isReachedFromOutside(i int) bool { return i%3 != 0 }

// Verdict returns the verdict of a frontend with this policy and these endpoints.
func Verdict(policy model.TrafficPolicy, p *model.Pool) model.Verdict {
	serving := p.Cluster
	if policy == model.PolicyLocal {
		serving = p.Local
	}
	switch {
	case len(serving) > 0:
		return model.VerdictBalance
	case len(p.Cluster) > 0:
		return model.VerdictDrop
	case p.Hold > 0:
		return model.VerdictHold
	}
	return model.VerdictReject
}

// sources are ranges; some contain others.
func sources(f model.Family, i int) []netip.Prefix {
	var out []netip.Prefix
	for k, length := range []int{8, 0, 1, 0} {
		a := Addr(f, byte(16+k), i)
		out = append(out, netip.PrefixFrom(a, a.BitLen()-length), netip.PrefixFrom(a, a.BitLen()))
	}
	return out
}

// Addr returns address n of a range.
func Addr(f model.Family, net byte, n int) netip.Addr {
	a := netip.AddrFrom4([4]byte{10, net, byte(n >> 8), byte(n)})
	if f == model.IPv4 {
		return a
	}
	b := [16]byte{0xfd, 0, 0, net}
	copy(b[12:], a.AsSlice())
	return netip.AddrFrom16(b)
}
