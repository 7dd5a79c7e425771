package nft

import (
	"net/netip"

	"kube-vmap/model"
)

// Config is what shapes the rule set and is the same for all Services.
type Config struct {
	// MasqueradeMark is the bit of the packet mark that asks for masquerade.
	// Exactly one bit is set.
	MasqueradeMark uint32
	// Pods is for each family the prefix that pods' addresses come from; an
	// invalid prefix means that pods cannot be told from others.
	Pods [len(model.Families)]netip.Prefix
	// PodInterface, if it is set, tells pods by the interface their packets come
	// in by, in both families; Pods is not looked at then.
	PodInterface Interface
}

// Interface names a network interface, or all whose names begin alike. None need
// exist: they are compared by name, packet by packet.
type Interface struct {
	Name   string // at most 15 bytes (IFNAMSIZ)
	Prefix bool
}

// DetectsPods reports whether packets of pods can be told from others.
func (c *Config) DetectsPods(f model.Family) bool {
	return c.PodInterface.Name != "" || c.Pods[f].IsValid()
}

// DefaultMasqueradeMark is kube-proxy's default, masqueradeBit 14.
const DefaultMasqueradeMark = 1 << 14

// rules are the rules of a chain.
func (c *Config) rules(id ChainID) []Rule {
	fam := &families[id.Family]
	set := func(kind SetKind) SetID { return SetID{Family: id.Family, Kind: kind} }
	chain := func(kind ChainKind, n uint32) ChainID { return ChainID{id.Family, kind, n} }
	switch id.Kind {
	case NATPrerouting, NATOutput:
		return []Rule{{dispatch(set(Services))}}
	case FilterInput:
		return []Rule{{newConnection(), dispatch(set(NoEndpointServices))}}
	case FilterForward, FilterOutput:
		return []Rule{{newConnection(), goTo(chain(ServiceCheck, 0))}}
	case NATPostrouting:
		return c.postroutingRules(set(Hairpin))
	case ServiceCheck:
		return []Rule{
			{dispatch(set(NoEndpointServices))},
			{in(set(ClusterIPs)), goTo(chain(RejectChain, 0))},
			{in(set(ServiceCIDRs)), drop()},
		}
	case RejectChain:
		return rejectRules(fam)
	case Cluster:
		return c.clusterRules(id, fam)
	case Masquerade:
		return []Rule{{setMark(c.MasqueradeMark)}, {goTo(chain(Balance, id.N))}}
	case Balance:
		return balanceRules(id, fam)
	case Endpoint:
		slot := SetID{id.Family, Endpoints, uint16(id.N)}
		return []Rule{{notICMP(fam), translate(slot, 0)}}
	}
	return nil
}

// rejectRules refuse a connection so that the client knows at once. kube-proxy
// answers TCP with ICMP, too; but from a pod of the same node that answer comes
// back while the client's socket is still busy connecting, is dropped (counter
// TcpExtLockDroppedIcmps), and the client learns it a second later, from the
// answer to its second attempt. A reset is kept for it.
func rejectRules(fam *family) []Rule {
	return []Rule{{tcpOnly(), resetTCP()}, {reject(fam)}}
}

// postroutingRules change the source of what was marked on its way in, and of
// pods that reach themselves. The mark is cleared first: it stays with a packet
// that is wrapped into another one, which would be masqueraded again.
func (c *Config) postroutingRules(hairpin SetID) []Rule {
	return []Rule{
		{marked(c.MasqueradeMark), flipMark(c.MasqueradeMark), masquerade()},
		{translated(), in(hairpin), masquerade()},
	}
}

// clusterRules mark for masquerade what does not come from a pod.
func (c *Config) clusterRules(id ChainID, fam *family) []Rule {
	balance := Rule{goTo(ChainID{id.Family, Balance, id.N})}
	pods := c.Pods[id.Family]
	switch {
	case c.PodInterface.Name != "":
		return []Rule{{notFrom(c.PodInterface), setMark(c.MasqueradeMark)}, balance}
	case !pods.IsValid() || pods.Bits() == 0:
		return []Rule{balance}
	}
	return []Rule{{sourceNotIn(fam, pods), setMark(c.MasqueradeMark)}, balance}
}

// balanceRules pick one of N endpoints.
func balanceRules(id ChainID, fam *family) []Rule {
	switch {
	case id.N > MaxSlots:
		return []Rule{{notICMP(fam), translate(SetID{Family: id.Family, Kind: EndpointsMany}, id.N)}}
	case id.N == 1:
		return []Rule{{goTo(ChainID{id.Family, Endpoint, 0})}}
	}
	choices := make([]ChainID, id.N)
	for k := range choices {
		choices[k] = ChainID{id.Family, Endpoint, uint32(k)}
	}
	return []Rule{{pickOne(choices)}}
}
