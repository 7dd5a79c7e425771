package nft

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Sample is a batch with everything that a rule set can hold, in the smallest
// number, and behind that what takes away all that can go, for trying out what a
// kernel can do.
func Sample(c Config) Batch {
	c.Pods = [...]netip.Prefix{
		model.IPv4: netip.MustParsePrefix("198.51.100.0/24"),
		model.IPv6: netip.MustParsePrefix("2001:db8:1::/48"),
	}
	var frontends []model.Frontend
	for f, pods := range c.Pods {
		frontends = append(frontends, samples(model.Family(f), pods.Addr())...)
	}
	cidrs := c.Pods[:]
	rules, batch := Adopt(c, Tables{}, Change{Set: frontends, ServiceCIDRs: &cidrs})
	var gone Change
	for i := range frontends {
		gone.Gone = append(gone.Gone, frontends[i].Match)
	}
	return append(batch, rules.Plan(gone).Batch...)
}

// samples are frontends with pools of every kind: small and large, and each way
// to pick an endpoint.
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
		outside := nodePort
		outside.Kind, outside.Match = model.KindLoadBalancerIP, p.Key
		outside.Match.Port++
		outside.Restricted, outside.Sources = true, []netip.Prefix{netip.PrefixFrom(addr, addr.BitLen()-1)}
		out = append(out, inside, nodePort, outside)
	}
	for s := model.SchedulerRandom; s <= model.SchedulerSourceHash; s++ { // Maglev asks for no more, in many more chains
		add(model.Pool{Scheduler: s, Cluster: endpoints[:2], Local: endpoints[:2]})
	}
	add(model.Pool{Affinity: time.Second, Cluster: endpoints[:2], Local: endpoints[:1]})
	add(model.Pool{Cluster: endpoints, Local: endpoints[:1]})
	return out
}

// options are the kernel's build options behind what the rule set uses, beside
// nf_tables itself.
var options = map[string]string{
	"counter": "CONFIG_NFT_COUNTER",
	"ct":      "CONFIG_NFT_CT",
	"fib":     "CONFIG_NFT_FIB",
	"hash":    "CONFIG_NFT_HASH",
	"masq":    "CONFIG_NFT_MASQ",
	"nat":     "CONFIG_NFT_NAT",
	"numgen":  "CONFIG_NFT_NUMGEN",
	"reject":  "CONFIG_NFT_REJECT",
	"ip":      "CONFIG_NF_TABLES_IPV4",
	"ip6":     "CONFIG_NF_TABLES_IPV6",
	"natbase": "CONFIG_NF_NAT",
}

// Missing says in one line what a kernel lacks that refused the [Sample] with
// this error.
func (e *Error) Missing() string {
	named := func(what, key string) string {
		if option := options[key]; option != "" {
			return fmt.Sprintf("%s (%s)", what, option)
		}
		return what
	}
	switch op := e.Op.(type) {
	case nil:
		return "nf_tables (CONFIG_NF_TABLES)"
	case AddTable:
		return named("nf_tables for family "+families[op.Family].name, families[op.Family].name)
	case AddChain:
		if h := chainSchema[op.Chain.Kind].hook; h != nil && h.chainType == "nat" {
			return named("chains of type nat", "natbase")
		}
	case DeleteChain:
		return "what lets a chain go in one transaction with all that leads there (fix 628bd3e49cba of Linux 6.4)"
	case AddRule:
		if e.Expression != "" {
			return named("the nf_tables expression "+e.Expression, e.Expression)
		}
	}
	return "what this takes: " + e.Error()
}

// expressionAt is the name of the expression of a rule's message that an offset
// points to; empty if it points elsewhere.
func expressionAt(message []byte, offset int) (name string) {
	if offset < 0 || offset+attrLen > len(message) {
		return ""
	}
	length := int(binary.NativeEndian.Uint16(message[offset:]))
	if length < attrLen || offset+length > len(message) {
		return ""
	}
	err := attributes(message[offset+attrLen:offset+length], func(kind uint16, value []byte) error {
		if kind == unix.NFTA_EXPR_NAME {
			name = text(value)
		}
		return nil
	})
	if err != nil {
		return ""
	}
	return name
}
