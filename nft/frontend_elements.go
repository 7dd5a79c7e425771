package nft

import (
	"net/netip"
	"unique"

	"kube-vmap/model"
)

// ownKinds appends the kinds of sets that have an element of this frontend alone, in the
// order of the kinds: where its connections go, or that they are rejected, dropped or held; the
// ClusterIP and port behind another address; and that access is restricted. A frontend that holds does
// so with endpoints, too: of a packet between the hooks while the first one is added, which is not
// translated, nothing must remain.
func (p *frontendState) ownKinds(out []SetKind) []SetKind {
	services, local, none := SetServices, SetLocalServices, SetNoEndpointServices
	if p.nodePort() {
		services, local, none = SetNodePorts, SetLocalNodePorts, SetNoEndpointNodePorts
	}
	if p.Served() {
		out = append(out, services)
	}
	if p.BypassesPolicy() && p.Verdict == model.VerdictBalance {
		out = append(out, local)
	}
	if p.Verdict != model.VerdictBalance || p.Pool.Hold > 0 {
		out = append(out, none)
	}
	switch {
	case p.IsClusterIP() || !p.Served():
	case p.nodePort():
		out = append(out, SetNodePortServiceIPs, SetNodePortServicePorts)
	default:
		out = append(out, SetServiceIPs)
	}
	if p.Pool.RetryRefused {
		out = append(out, SetRefusals, SetRetried)
	}
	switch {
	case p.Restricted && p.nodePort():
		out = append(out, SetRestrictedNodePorts)
	case p.Restricted:
		out = append(out, SetRestricted)
	}
	return out
}

// ownValue is the value of the frontend's element in the set of one of these kinds.
func (p *frontendState) ownValue(kind SetKind) Value {
	switch kind {
	case SetServices, SetNodePorts:
		return goesTo(p.chain)
	case SetLocalServices, SetLocalNodePorts:
		return goesTo(p.balancer(ChainID{Kind: ChainService, Local: true, NodePort: p.nodePort()}))
	case SetNoEndpointServices, SetNoEndpointNodePorts:
		switch p.Verdict {
		case model.VerdictDrop:
			return Value{Verdict: VerdictDrop}
		case model.VerdictReject:
			return goesTo(ChainID{Family: p.Match.Family, Kind: ChainReject})
		}
		return goesTo(ChainID{Family: p.Match.Family, Kind: ChainHold})
	case SetServiceIPs, SetNodePortServiceIPs:
		return Value{Endpoint: netip.AddrPortFrom(p.Pool.Key.Addr, 0)}
	case SetNodePortServicePorts:
		return Value{Endpoint: netip.AddrPortFrom(netip.Addr{}, p.Pool.Key.Port)}
	}
	return Value{} // of a set
}

// ownElements appends the elements that the frontend does not share with others, without
// its endpoints, in the order of their sets and keys.
func (p *frontendState) ownElements(out []setElement) []setElement {
	var kinds [8]SetKind
	for _, kind := range p.ownKinds(kinds[:0]) {
		out = append(out, p.element(SetID{Family: p.Match.Family, Kind: kind}, 0, nil))
	}
	return p.sources(out)
}

// sources appends the sources that may use the frontend, and those that may not.
func (p *frontendState) sources(out []setElement) []setElement {
	if !p.Restricted {
		return out
	}
	k := keyOf(p.Match)
	if p.nodePort() {
		k.Addr = families[p.Match.Family].zero()
	}
	for kind, prefixes := range [...][]netip.Prefix{p.Sources, p.Denied} {
		for _, prefix := range byLength(outermost(prefixes)) {
			id := SetID{Family: p.Match.Family, Kind: SetAllowedSources + SetKind(kind), Slot: uint16(prefix.Bits())}
			k.Source = unique.Make(prefix)
			out = append(out, setElement{id, Element{Key: k, Service: &p.Service}})
		}
	}
	return out
}
