package nft

import (
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
)

// A node answers echo requests to an address of a Service while any client can connect to one of its
// ports: with a policy of Local, if the node has an endpoint, and not with source ranges. Only the
// first packet of a ping passes here, so one that has begun goes on.
//
// Redirecting them would not do: the kernel drops what arrives at an interface without an address
// of its own (nf_nat_redirect_ipv4), such as Calico's. Load balancer and external addresses answer
// only what the node would send back otherwise: elsewhere a host may have the address, and an answer
// of this node would hide that it does not respond.

// pingRules are for what no other rule of a chain has translated.
func (c *Config) pingRules(id ChainID) []Rule {
	to := c.PingTo[id.Family]
	if !to.IsValid() {
		return nil
	}
	fam := &families[id.Family]
	answers := notIn(SetID{Family: id.Family, Kind: SetNoPingIPs})
	rules := []Rule{{echoRequest(fam), in(SetID{Family: id.Family, Kind: SetClusterIPs}), answers, translateTo(fam, to)}}
	if id.Kind == ChainNATPrerouting {
		external := in(SetID{Family: id.Family, Kind: SetExternalIPs})
		rules = append(rules, Rule{echoRequest(fam), external, answers, sentBack(), translateTo(fam, to)})
	}
	return rules
}

// PingTo returns which of these addresses pings go to by the rules in the tables, for [Config].PingTo.
func (t Tables) PingTo(addrs []netip.Prefix) (to [len(model.Families)]netip.Addr) {
	for _, p := range addrs {
		id := ChainID{Family: model.FamilyOf(p.Addr()), Kind: ChainNATOutput}
		var c Config
		c.PingTo[id.Family] = p.Addr()
		rule := c.pingRules(id)[0]
		if table := t[id.Family]; table != nil && slices.Contains(table.Chains[id.Name()].Rules, rule.Fingerprint()) {
			to[id.Family] = p.Addr()
		}
	}
	return to
}

// echoRequest matches ICMP echo requests.
func echoRequest(fam *family) Statement {
	return Statement{Text: fam.echoName, Expressions: append(
		compareProtocol(true, fam.icmpName, fam.icmp).Expressions,
		&expr.Payload{DestRegister: regValue, Base: expr.PayloadBaseTransportHeader, Len: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: regValue, Data: []byte{fam.echo}},
	)}
}

// translateTo sends the connection to an address.
func translateTo(fam *family, to netip.Addr) Statement {
	return Statement{Text: "dnat to " + to.String(), Expressions: []any{
		&expr.Immediate{Register: regValue, Data: to.AsSlice()},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(fam.number), RegAddrMin: regValue},
	}}
}
