package nft

import (
	"net/netip"
	"time"

	"kube-vmap/model"
)

// Sample returns a batch that adds everything that a rule set can have, as few of each as
// possible, and then deletes everything that can be deleted. It is for probing a kernel.
func Sample(c Config) Batch {
	c.Pods = [...]netip.Prefix{
		model.IPv4: netip.MustParsePrefix("198.51.100.0/24"),
		model.IPv6: netip.MustParsePrefix("2001:db8:1::/48"),
	}
	for f, pods := range c.Pods {
		c.PingTo[f] = pods.Addr()
	}
	var frontends []model.Frontend
	for f, pods := range c.Pods {
		frontends = append(frontends, samples(model.Family(f), pods.Addr())...)
	}
	cidrs := c.Pods[:]
	rules, batch := Adopt(c, Tables{}, Change{Set: frontends, ServiceCIDRs: &cidrs})
	var removed Change
	for i := range frontends {
		removed.Removed = append(removed.Removed, frontends[i].Match)
	}
	return append(batch, rules.Plan(removed).Batch...)
}

// SampleLabels returns a batch that adds the rules with labels of connections, for probing a
// kernel that may lack these.
func SampleLabels() Batch {
	chain := ChainID{Family: model.IPv4, Kind: ChainNATPostrouting}
	return Batch{
		AddTable{Family: chain.Family},
		AddChain{chain},
		AddRule{chain, Rule{setLabel(masqueradeLabel())}},
		AddRule{chain, Rule{labelled(masqueradeLabel())}},
	}
}

// samples returns frontends with pools of every kind: small and large, and with each way to
// pick an endpoint.
func samples(f model.Family, addr netip.Addr) []model.Frontend {
	var endpoints []netip.AddrPort
	for a := addr; len(endpoints) <= MaxSlots; a = a.Next() {
		endpoints = append(endpoints, netip.AddrPortFrom(a, 1))
	}
	var out []model.Frontend
	add := func(p model.Pool) {
		addr = addr.Next()
		p.Key = model.Match{Family: f, Addr: addr, Protocol: model.TCP, Port: 1}
		inside := model.Frontend{Match: p.Key, Pool: &p, Masquerade: model.MasqueradeOffPod}
		nodePort := model.Frontend{
			Match: model.Match{Family: f, Protocol: model.TCP, Port: uint16(len(out) + 1)},
			Kind:  model.KindNodePort, Policy: model.PolicyLocal, Pool: &p,
		}
		nodePort.Restricted, nodePort.Sources = true, []netip.Prefix{netip.PrefixFrom(addr, addr.BitLen()-1)}
		nodePort.Denied = []netip.Prefix{netip.PrefixFrom(addr, addr.BitLen())}
		outside := nodePort
		outside.Kind, outside.Match = model.KindLoadBalancerIP, p.Key
		outside.Match.Port++
		out = append(out, inside, nodePort, outside)
	}
	// Maglev needs the same as source hash, in many more chains. Add a new scheduler here
	// if it needs another expression.
	for _, s := range []model.Scheduler{model.SchedulerRandom, model.SchedulerRoundRobin, model.SchedulerSourceHash} {
		for _, retry := range [...]bool{false, true} {
			add(model.Pool{Scheduler: s, RetryRefused: retry, Cluster: endpoints[:2], Local: endpoints[:2]})
		}
	}
	add(model.Pool{Affinity: time.Second, Cluster: endpoints[:2], Local: endpoints[:1]})
	add(model.Pool{Cluster: endpoints, Local: endpoints[:1]})
	held := model.Match{Family: f, Addr: addr.Next(), Protocol: model.TCP, Port: 3}
	return append(out, model.Frontend{Match: held, Verdict: model.VerdictHold, Pool: &model.Pool{Key: held}})
}
