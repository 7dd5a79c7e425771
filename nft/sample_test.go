package nft

import (
	"fmt"
	"net/netip"
	"time"

	"kube-vmap/model"
)

// sampleConfig tells pods of both families from others, and drops what it can.
var sampleConfig = Config{
	MasqueradeMark:   DefaultMasqueradeMark,
	DropInvalid:      true,
	CountConnections: true,
	Pods: [...]netip.Prefix{
		model.IPv4: netip.MustParsePrefix("10.244.0.0/16"),
		model.IPv6: netip.MustParsePrefix("fd00:10:244::/56"),
	},
}

// sampleCIDRs has neighbours, and ranges up to the last address.
var sampleCIDRs = prefixesOf("10.96.0.0/16 10.97.0.0/16 255.255.255.0/24 fd00:10:96::/112 ffff::/16")

// sampleNodeAddrs are addresses that serve node ports.
var sampleNodeAddrs = []netip.Addr{
	netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8:2::1"),
}

// sample is n Services of every kind in both families: see [sampleService].
func sample(n int) Change {
	c := Change{ServiceCIDRs: &sampleCIDRs, NodeAddrs: &sampleNodeAddrs}
	for i := range n {
		for _, f := range model.Families {
			c.Set = append(c.Set, sampleService(f, i)...)
		}
	}
	return c
}

// sampleService is the frontends of Service number i: with one to five
// endpoints, refused, dropped, or with more endpoints than slots; of every
// scheduler, with affinity or without; and reached from inside only, or by all
// kinds of addresses, under either policy.
func sampleService(f model.Family, i int) []model.Frontend {
	pool := samplePool(f, i)
	inside := model.Frontend{Match: pool.Key, Masquerade: model.Masquerade(i % 3), Pool: pool}
	inside.Service.Namespace, inside.Service.Name, inside.Service.Port = "shop", fmt.Sprint("web-", i), "http"
	policy, outsidePolicy := samplePolicies(i)
	inside.Policy = policy
	inside.Verdict = sampleVerdict(inside.Policy, pool)
	if i%11 == 8 {
		inside.Verdict = model.VerdictDrop
	}
	out := []model.Frontend{inside}
	if !sampleOutside(i) {
		return out
	}
	for kind := model.KindNodePort; kind <= model.KindLoadBalancerIP; kind++ {
		outside := inside
		outside.Kind, outside.Policy = kind, outsidePolicy
		outside.Verdict = sampleVerdict(outside.Policy, pool)
		outside.Masquerade = model.MasqueradeNever
		if outside.Policy == model.PolicyCluster {
			outside.Masquerade = model.MasqueradeAlways
		}
		outside.Match.Addr = sampleAddr(f, [...]byte{model.KindExternalIP: 198, model.KindLoadBalancerIP: 203}[kind], i)
		if kind == model.KindNodePort {
			outside.Match.Addr, outside.Match.Port = netip.Addr{}, uint16(30000+i)
		}
		if kind == model.KindLoadBalancerIP && i%4 == 1 {
			outside.Restricted, outside.Sources = true, sampleSources(f, i)
		}
		out = append(out, outside)
	}
	return out
}

// samplePool is what stands behind Service number i.
func samplePool(f model.Family, i int) *model.Pool {
	p := &model.Pool{
		Key: model.Match{
			Family: f, Addr: sampleAddr(f, 96, i), Protocol: model.Protocols[i%3], Port: uint16(80 + i%2),
		},
		Scheduler: model.SchedulerRandom + model.Scheduler(i%4),
	}
	endpoints := 1 + i%5
	switch {
	case i%11 == 7 || i%11 == 8:
		endpoints = 0
	case i == 9 || i == 10:
		endpoints = MaxSlots + 1
	}
	if i%7 == 3 {
		p.Affinity = time.Duration(1+i%3) * time.Hour
	}
	for k := range endpoints {
		pod := sampleAddr(f, 244, i*5+k)
		p.Cluster = append(p.Cluster, netip.AddrPortFrom(pod, 8080))
	}
	if endpoints > 0 {
		p.Hairpin = []netip.Addr{p.Cluster[0].Addr()}
	}
	inside, outside := samplePolicies(i)
	if i%5 != 4 && (inside == model.PolicyLocal || sampleOutside(i) && outside == model.PolicyLocal) {
		p.Local = p.Cluster[:(endpoints+1)/2]
	}
	if inside == model.PolicyLocal && !sampleOutside(i) {
		p.Cluster = nil
	}
	return p
}

// samplePolicies are the policies of Service number i for traffic from inside
// and from outside.
func samplePolicies(i int) (inside, outside model.TrafficPolicy) {
	return model.TrafficPolicy(i / 2 % 2), model.TrafficPolicy(i % 2)
}

// sampleOutside tells whether Service number i has addresses for traffic from
// outside.
func sampleOutside(i int) bool { return i%3 != 0 }

func sampleVerdict(policy model.TrafficPolicy, p *model.Pool) model.Verdict {
	serving := p.Cluster
	if policy == model.PolicyLocal {
		serving = p.Local
	}
	switch {
	case len(serving) > 0:
		return model.VerdictBalance
	case len(p.Cluster) > 0:
		return model.VerdictDrop
	}
	return model.VerdictReject
}

// sampleSources are ranges some of which contain others.
func sampleSources(f model.Family, i int) []netip.Prefix {
	var out []netip.Prefix
	for k, length := range []int{8, 0, 1, 0} {
		a := sampleAddr(f, byte(16+k), i)
		out = append(out, netip.PrefixFrom(a, a.BitLen()-length), netip.PrefixFrom(a, a.BitLen()))
	}
	return out
}

// sampleAddr is address n of a range.
func sampleAddr(f model.Family, net byte, n int) netip.Addr {
	a := netip.AddrFrom4([4]byte{10, net, byte(n >> 8), byte(n)})
	if f == model.IPv4 {
		return a
	}
	b := [16]byte{0xfd, 0, 0, net}
	copy(b[12:], a.AsSlice())
	return netip.AddrFrom16(b)
}

// load is the batch of a first load of n Services, and what comes of it.
func load(n int) (*Ruleset, Batch) { return Adopt(sampleConfig, Tables{}, sample(n)) }
