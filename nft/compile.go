package nft

import (
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// placed is an element and the set it belongs to.
type placed struct {
	set SetID
	Element
}

// programmed is a frontend as it stands in the tables: with its endpoints in
// slots.
type programmed struct {
	model.Frontend
	slots   []netip.AddrPort
	comment string // of its elements, shared by all of them
}

// place puts a frontend into the tables.
func place(f model.Frontend, slots []netip.AddrPort) *programmed {
	return &programmed{Frontend: f, slots: slots, comment: f.Service.String()}
}

// target is the chain a frontend's connections go to. It says by its kind and
// number all there is to say about how they are treated.
func (p *programmed) target() ChainID {
	id := ChainID{Family: p.Match.Family, N: uint32(len(p.slots))}
	switch p.Masquerade {
	case model.MasqueradeAlways:
		id.Kind = Masquerade
	case model.MasqueradeOffPod:
		id.Kind = Cluster
	case model.MasqueradeNever:
		id.Kind = Balance
	}
	return id
}

// key is the frontend's key in the maps that dispatch.
func (p *programmed) key() Key {
	return Key{Addr: p.Match.Addr, Protocol: p.Match.Protocol, Port: p.Match.Port}
}

// compile appends the elements that the frontend has to itself, in the order of
// their sets and keys.
func (p *programmed) compile(out []placed) []placed {
	f, key := p.Match.Family, p.key()
	out = slices.Grow(out, 1+len(p.slots))
	add := func(id SetID, k Key, v Value) {
		out = append(out, placed{id, Element{k, v, p.comment}})
	}
	switch p.Verdict {
	case model.Reject:
		add(SetID{Family: f, Kind: NoEndpointServices}, key, Value{Verdict: Goto, Chain: ChainID{Family: f, Kind: RejectChain}})
		return out
	case model.Drop:
		add(SetID{Family: f, Kind: NoEndpointServices}, key, Value{Verdict: Drop})
		return out
	case model.Balance:
	}
	add(SetID{Family: f, Kind: Services}, key, Value{Verdict: Goto, Chain: p.target()})
	for k, endpoint := range p.slots {
		if len(p.slots) <= MaxSlots {
			add(SetID{f, Endpoints, uint16(k)}, key, Value{Endpoint: endpoint})
			continue
		}
		key.Pick = uint32(k)
		add(SetID{Family: f, Kind: EndpointsMany}, key, Value{Endpoint: endpoint})
	}
	return out
}

// share appends the elements that several frontends may need: the address that
// answers for unknown ports, and the pods that may reach themselves.
func (p *programmed) share(out []placed) []placed {
	f := p.Match.Family
	if p.Kind == model.ClusterIP {
		out = append(out, placed{SetID{Family: f, Kind: ClusterIPs}, Element{Key: Key{Addr: p.Match.Addr}}})
	}
	for _, pod := range p.Hairpin {
		out = append(out, placed{SetID{Family: f, Kind: Hairpin}, Element{Key: Key{Addr: pod}}})
	}
	return out
}

// prefixElements are the elements of an interval set that together cover the
// prefixes: sorted, and none within another, which the kernel would refuse.
func prefixElements(prefixes []netip.Prefix) []Element {
	var out []Element
	for _, p := range outermost(prefixes) {
		out = append(out, Element{Key: Key{Addr: p.Addr(), Bits: uint8(p.Bits())}})
	}
	return out
}
