package nft

import (
	"net/netip"
	"slices"
	"time"
	"unique"

	"kube-vmap/model"
)

// setElement is an element and the set it belongs to.
type setElement struct {
	set SetID
	Element
}

// frontendState is a frontend as it stands in the tables. Only the owner of a pool
// has slots.
type frontendState struct {
	model.Frontend
	slots slots
	// known tells that the addresses of its endpoints are to be known.
	known bool
}

// slots are the endpoints of a pool, each at its place: those for the whole
// cluster, and those on this node.
type slots struct {
	cluster, local []netip.AddrPort
	// of is the pool whose lists these are, each endpoint once; nil where that is
	// not so, or not known.
	of *model.Pool
}

// list are the slots of one of the two lists.
func (s *slots) list(local bool) []netip.AddrPort {
	if local {
		return s.local
	}
	return s.cluster
}

// place puts a frontend into the tables; endpoints that are in old keep their
// slots.
func (c *Config) place(f model.Frontend, old slots) *frontendState {
	p := new(frontendState)
	c.placeAt(p, f, old)
	return p
}

// placeAt is place, for one of many.
func (c *Config) placeAt(p *frontendState, f model.Frontend, old slots) {
	*p = frontendState{Frontend: f}
	p.known = c.DropInvalid && f.Match.Protocol == model.TCP
	if f.OwnsPool() {
		p.slots = old.next(f.Pool)
	}
}

// next places the endpoints of a pool where old ones stand.
func (s *slots) next(p *model.Pool) slots {
	out := slots{of: p}
	assign := func(old, before, endpoints []netip.AddrPort) []netip.AddrPort {
		switch {
		case methodOf(p, len(endpoints)) == pickMaglev:
			out.of = nil
			return model.MaglevTable(endpoints, maglevSize)
		case s.of != nil:
			return reassignSlots(old, before, endpoints)
		}
		return assignSlots(old, endpoints)
	}
	var before model.Pool
	if s.of != nil {
		before = *s.of
	}
	out.cluster = assign(s.cluster, before.Cluster, p.Cluster)
	out.local = assign(s.local, before.Local, p.Local)
	return out
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
	case p.Scheduler == model.SchedulerRoundRobin:
		return pickRoundRobin
	case p.Scheduler == model.SchedulerSourceHash && n <= MaxSlots:
		return pickSourceHash
	case p.Scheduler == model.SchedulerMaglev && n <= maglevSize:
		return pickMaglev
	}
	return pickRandom
}

// balancer completes a chain by how it picks one of the pool's endpoints.
func (p *frontendState) balancer(id ChainID) ChainID {
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
func (p *frontendState) target() ChainID {
	var id ChainID
	switch {
	case p.ShortCircuit():
		id = ChainID{Kind: ChainExternalLocal, NodePort: p.nodePort()}
	case !p.OwnsPool():
		id = ChainID{Kind: ChainExternal, NodePort: p.nodePort()}
	case p.Masquerade == model.MasqueradeAlways:
		id = ChainID{Kind: ChainMasquerade}
	case p.Masquerade == model.MasqueradeOffPod:
		id = ChainID{Kind: ChainCluster}
	default:
		id = ChainID{Kind: ChainBalance}
	}
	id.Local = p.OwnsPool() && p.Policy == model.PolicyLocal
	return p.balancer(id)
}

// nodePort reports whether the frontend is a port of the node.
func (p *frontendState) nodePort() bool { return p.Kind == model.KindNodePort }

// Key is the frontend's key in the maps that dispatch.
func (p *frontendState) key() Key {
	return Key{Addr: p.Match.Addr, Protocol: p.Match.Protocol, Port: p.Match.Port}
}

// compiler collects the elements of one frontend.
type compiler struct {
	*frontendState
	out []setElement
}

// add adds an element to a set that there is once.
func (c *compiler) add(kind SetKind, k Key, v Value) {
	c.put(SetID{Family: c.Match.Family, Kind: kind}, k, v)
}

func (c *compiler) put(id SetID, k Key, v Value) {
	c.out = append(c.out, setElement{id, Element{Key: k, Value: v, Service: &c.Service}})
}

// compile appends the elements that the frontend has to itself.
func (p *frontendState) compile(out []setElement) []setElement {
	out = p.entry(slices.Grow(out, 2+len(p.slots.cluster)+len(p.slots.local)))
	for _, local := range [...]bool{false, true} {
		row := p.row(local)
		for k := range row.list {
			out = append(out, row.at(k))
		}
	}
	return out
}

// entry appends the elements that lead to the endpoints, in the order of their
// sets and keys.
func (p *frontendState) entry(out []setElement) []setElement {
	c := compiler{p, out}
	c.dispatch()
	c.way()
	c.sources()
	return c.out
}

// dispatch says where connections go, or that they go nowhere.
func (c *compiler) dispatch() {
	services, local, none := SetServices, SetLocalServices, SetNoEndpointServices
	if c.nodePort() {
		services, local, none = SetNodePorts, SetLocalNodePorts, SetNoEndpointNodePorts
	}
	if c.Served() {
		c.add(services, c.key(), goesTo(c.target()))
	}
	if c.ShortCircuit() && c.Verdict == model.VerdictBalance {
		c.add(local, c.key(), goesTo(c.balancer(ChainID{Kind: ChainService, Local: true, NodePort: c.nodePort()})))
	}
	switch c.Verdict {
	case model.VerdictReject:
		c.add(none, c.key(), goesTo(ChainID{Family: c.Match.Family, Kind: ChainReject}))
	case model.VerdictDrop:
		c.add(none, c.key(), Value{Verdict: VerdictDrop})
	case model.VerdictBalance:
	}
}

// way says which ClusterIP and port stand behind an address.
func (c *compiler) way() {
	if c.OwnsPool() || !c.Served() {
		return
	}
	behind := Value{Endpoint: netip.AddrPortFrom(c.Pool.Key.Addr, c.Pool.Key.Port)}
	if !c.nodePort() {
		c.add(SetServiceIPs, c.key(), behind.address())
		return
	}
	c.add(SetNodePortServiceIPs, c.key(), behind.address())
	c.add(SetNodePortServicePorts, c.key(), behind.port())
}

// sources says who may come.
func (c *compiler) sources() {
	if !c.Restricted {
		return
	}
	c.add(SetRestricted, c.key(), Value{})
	for _, prefix := range byLength(outermost(c.Sources)) {
		k := c.key()
		k.Source = unique.Make(prefix)
		c.put(SetID{Family: c.Match.Family, Kind: SetAllowedSources, Slot: uint16(prefix.Bits())}, k, Value{})
	}
}

// row is one list of endpoints as it stands in the tables.
type row struct {
	*frontendState
	kind  SetKind
	local bool
	list  []netip.AddrPort
}

// row is one of the two lists.
func (p *frontendState) row(local bool) row {
	r := row{frontendState: p, kind: SetEndpoints, local: local, list: p.slots.list(local)}
	if len(r.list) > MaxSlots {
		r.kind = SetEndpointsMany
	}
	if p.Pool.Affinity > 0 {
		r.kind += SetStickyEndpoints - SetEndpoints
	}
	return r
}

// set is the set of the row's elements, or of the first.
func (r *row) set() SetID { return SetID{Family: r.Match.Family, Kind: r.kind, Local: r.local} }

// at is the element of the endpoint in slot k.
func (r *row) at(k int) setElement {
	id, key := r.set(), r.key()
	if r.kind.slotted() {
		id.Slot = uint16(k)
	} else {
		key.Pick = uint32(k)
	}
	v := Value{Endpoint: r.list[k]}
	if r.Pool.Affinity > 0 {
		v = goesTo(r.sticky(r.list[k], r.local))
	}
	return setElement{id, Element{Key: key, Value: v, Service: &r.Service}}
}

// sticky is the chain of an endpoint that remembers its clients.
func (p *frontendState) sticky(endpoint netip.AddrPort, local bool) ChainID {
	return ChainID{
		Family: p.Match.Family, Kind: ChainStickyEndpoint, Local: local,
		Sticky: unique.Make(Sticky{endpoint, p.Match.Protocol, uint32(p.Pool.Affinity / time.Second)}),
	}
}

// clientKeyOf is the key of a set of sources.
func clientKeyOf(a netip.Addr) Key {
	return Key{Source: unique.Make(netip.PrefixFrom(a, a.BitLen()))}
}

// share appends the elements that several frontends may need: the address that
// answers for unknown ports, the pods that may reach themselves, and the addresses
// of endpoints.
func (p *frontendState) share(out []sharedKey) []sharedKey {
	if !p.OwnsPool() {
		return out
	}
	out = append(out, p.shared(SetClusterIPs, Key{Addr: p.Match.Addr}))
	for _, pod := range p.Pool.Hairpin {
		out = append(out, p.hairpin(pod))
	}
	for _, list := range p.endpointIPs() {
		for _, e := range list {
			out = append(out, p.endpointIP(e))
		}
	}
	return out
}

func (p *frontendState) shared(kind SetKind, k Key) sharedKey {
	return sharedKey{SetID{Family: p.Match.Family, Kind: kind}, k}
}

// hairpin is the element of a pod that may reach itself.
func (p *frontendState) hairpin(pod netip.Addr) sharedKey {
	return p.shared(SetHairpin, Key{Addr: pod})
}

// endpointIP is the element of an endpoint whose address is to be known.
func (p *frontendState) endpointIP(e netip.AddrPort) sharedKey {
	return p.shared(SetEndpointIPs, clientKeyOf(e.Addr()))
}

// endpointIPs are the endpoints whose addresses are to be known.
func (p *frontendState) endpointIPs() [2][]netip.AddrPort {
	if !p.known {
		return [2][]netip.AddrPort{}
	}
	return [2][]netip.AddrPort{p.Pool.Cluster, p.Pool.Local}
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
