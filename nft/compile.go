package nft

import (
	"net/netip"
	"slices"
	"time"
	"unique"

	"kube-vmap/model"
)

// placed is an element and the set it belongs to.
type placed struct {
	set SetID
	Element
}

// programmed is a frontend as it stands in the tables. Only the owner of a pool
// has slots.
type programmed struct {
	model.Frontend
	slots   slots
	comment string // of its elements, shared by all of them
	// known tells that the addresses of its endpoints are to be known.
	known bool
}

// slots are the endpoints of a pool, each at its place: those for the whole
// cluster, and those on this node.
type slots struct {
	cluster, local []netip.AddrPort
}

// of are the slots of one of the two lists.
func (s *slots) of(local bool) []netip.AddrPort {
	if local {
		return s.local
	}
	return s.cluster
}

// place puts a frontend into the tables; endpoints that are in old keep their
// slots.
func (c *Config) place(f model.Frontend, old slots) *programmed {
	p := &programmed{Frontend: f, comment: f.Service.String()}
	p.known = c.DropInvalid && f.Match.Protocol == model.TCP
	if f.Owner() {
		p.slots.cluster = assign(f.Pool, old.cluster, f.Pool.Cluster)
		p.slots.local = assign(f.Pool, old.local, f.Pool.Local)
	}
	return p
}

// assign places one list of endpoints.
func assign(p *model.Pool, old, endpoints []netip.AddrPort) []netip.AddrPort {
	if methodOf(p, len(endpoints)) == pickMaglev {
		return model.MaglevTable(endpoints, maglevSize)
	}
	return assignSlots(old, endpoints)
}

// methodOf is how one of n endpoints of the pool is picked. Hashes choose among
// slots, of which there are not enough for a Service with very many endpoints;
// there they give way to chance.
func methodOf(p *model.Pool, n int) method {
	switch {
	case p.Affinity > 0:
		return pickSticky
	case n < 2:
		return pickRandom
	case p.Scheduler == model.RoundRobin:
		return pickRoundRobin
	case p.Scheduler == model.SourceHash && n <= MaxSlots:
		return pickSourceHash
	case p.Scheduler == model.Maglev && n <= maglevSize:
		return pickMaglev
	}
	return pickRandom
}

// balancer completes a chain by how it picks one of the pool's endpoints.
func (p *programmed) balancer(id ChainID) ChainID {
	n := len(p.Pool.Cluster)
	if id.Local {
		n = len(p.Pool.Local)
	}
	id.Family, id.Method, id.N = p.Match.Family, methodOf(p.Pool, n), uint32(n)
	if id.Method == pickMaglev {
		id.N = maglevSize
	}
	return id
}

// target is the chain a frontend's connections go to. It says by its name all
// there is to say about how they are treated.
func (p *programmed) target() ChainID {
	var id ChainID
	switch {
	case p.ShortCircuit():
		id = ChainID{Kind: ExternalLocal, NodePort: p.nodePort()}
	case !p.Owner():
		id = ChainID{Kind: External, NodePort: p.nodePort()}
	case p.Masquerade == model.MasqueradeAlways:
		id = ChainID{Kind: Masquerade}
	case p.Masquerade == model.MasqueradeOffPod:
		id = ChainID{Kind: Cluster}
	default:
		id = ChainID{Kind: Balance}
	}
	id.Local = p.Owner() && p.Policy == model.PolicyLocal
	return p.balancer(id)
}

// nodePort reports whether the frontend is a port of the node.
func (p *programmed) nodePort() bool { return p.Kind == model.NodePort }

// key is the frontend's key in the maps that dispatch.
func (p *programmed) key() Key {
	return Key{Addr: p.Match.Addr, Protocol: p.Match.Protocol, Port: p.Match.Port}
}

// compiler collects the elements of one frontend.
type compiler struct {
	*programmed
	out []placed
}

// add adds an element to a set that there is once.
func (c *compiler) add(kind SetKind, k Key, v Value) {
	c.put(SetID{Family: c.Match.Family, Kind: kind}, k, v)
}

func (c *compiler) put(id SetID, k Key, v Value) {
	c.out = append(c.out, placed{id, Element{k, v, c.comment}})
}

// compile appends the elements that the frontend has to itself, in the order of
// their sets and keys.
func (p *programmed) compile(out []placed) []placed {
	c := compiler{p, slices.Grow(out, 2+len(p.slots.cluster)+len(p.slots.local))}
	c.dispatch()
	c.way()
	c.sources()
	c.endpoints(false)
	c.endpoints(true)
	return c.out
}

// dispatch says where connections go, or that they go nowhere.
func (c *compiler) dispatch() {
	services, local, none := Services, LocalServices, NoEndpointServices
	if c.nodePort() {
		services, local, none = NodePorts, LocalNodePorts, NoEndpointNodePorts
	}
	if c.Served() {
		c.add(services, c.key(), goesTo(c.target()))
	}
	if c.ShortCircuit() && c.Verdict == model.Balance {
		c.add(local, c.key(), goesTo(c.balancer(ChainID{Kind: Service, Local: true, NodePort: c.nodePort()})))
	}
	switch c.Verdict {
	case model.Reject:
		c.add(none, c.key(), goesTo(ChainID{Family: c.Match.Family, Kind: RejectChain}))
	case model.Drop:
		c.add(none, c.key(), Value{Verdict: Drop})
	case model.Balance:
	}
}

// way says which ClusterIP and port stand behind an address.
func (c *compiler) way() {
	if c.Owner() || !c.Served() {
		return
	}
	behind := Value{Endpoint: netip.AddrPortFrom(c.Pool.Key.Addr, c.Pool.Key.Port)}
	if !c.nodePort() {
		c.add(ServiceIPs, c.key(), behind.address())
		return
	}
	c.add(NodePortServiceIPs, c.key(), behind.address())
	c.add(NodePortServicePorts, c.key(), behind.port())
}

// sources says who may come.
func (c *compiler) sources() {
	if !c.Restricted {
		return
	}
	c.add(Restricted, c.key(), Value{})
	for _, prefix := range outermost(c.Sources) {
		k := c.key()
		k.Source = unique.Make(prefix)
		c.add(AllowedSources, k, Value{})
	}
}

// endpoints are what is in the slots.
func (c *compiler) endpoints(local bool) {
	id, key := SetID{Family: c.Match.Family, Kind: Endpoints, Local: local}, c.key()
	list := c.slots.of(local)
	many := len(list) > MaxSlots
	if many {
		id.Kind = EndpointsMany
	}
	sticky := c.Pool.Affinity > 0
	if sticky {
		id.Kind += StickyEndpoints - Endpoints
	}
	for k, endpoint := range list {
		if many {
			key.Pick = uint32(k)
		} else {
			id.Slot = uint16(k)
		}
		v := Value{Endpoint: endpoint}
		if sticky {
			v = goesTo(c.sticky(endpoint, local))
		}
		c.put(id, key, v)
	}
}

// sticky is the chain of an endpoint that remembers its clients.
func (c *compiler) sticky(endpoint netip.AddrPort, local bool) ChainID {
	return ChainID{
		Family: c.Match.Family, Kind: StickyEndpoint, Local: local,
		Sticky: unique.Make(Sticky{endpoint, c.Match.Protocol, uint32(c.Pool.Affinity / time.Second)}),
	}
}

// clientKeyOf is the key of a set of sources.
func clientKeyOf(a netip.Addr) Key {
	return Key{Source: unique.Make(netip.PrefixFrom(a, a.BitLen()))}
}

// share appends the elements that several frontends may need: the address that
// answers for unknown ports, the pods that may reach themselves, and the addresses
// of endpoints.
func (p *programmed) share(out []placed) []placed {
	f := p.Match.Family
	if !p.Owner() {
		return out
	}
	out = append(out, placed{SetID{Family: f, Kind: ClusterIPs}, Element{Key: Key{Addr: p.Match.Addr}}})
	for _, pod := range p.Pool.Hairpin {
		out = append(out, placed{SetID{Family: f, Kind: Hairpin}, Element{Key: Key{Addr: pod}}})
	}
	if !p.known {
		return out
	}
	for _, list := range [...][]netip.AddrPort{p.Pool.Cluster, p.Pool.Local} {
		for _, e := range list {
			out = append(out, placed{SetID{Family: f, Kind: EndpointIPs}, Element{Key: clientKeyOf(e.Addr())}})
		}
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
