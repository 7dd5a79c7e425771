package nft

import (
	"net/netip"
	"time"
	"unique"

	"kube-vmap/model"
)

// A setElement is an element and the set that it belongs to.
type setElement struct {
	set SetID
	Element
}

// A frontendState is a frontend as it is in the tables. Only the owner of a pool has slots.
type frontendState struct {
	model.Frontend
	// chain is the target, if it is served.
	chain ChainID
	slots slots
	// numbers are nil unless clients of the pool are remembered, or retried.
	numbers *endpointNumbers
	// tracksAddrs means that the addresses of its endpoints are in SetEndpointIPs.
	tracksAddrs bool
	// answersPing means that its address is not in SetNoPingIPs.
	answersPing bool
}

// slots are the endpoints of a pool by slot: of the whole cluster, and of this node.
type slots struct {
	cluster, local []netip.AddrPort
	// of is the pool of these endpoints, each in as many slots as it has shares. It is nil
	// if the pool is unknown, or [model.MaglevTable] decides.
	of *model.Pool
}

func (s *slots) list(local bool) []netip.AddrPort {
	if local {
		return s.local
	}
	return s.cluster
}

// initState assigns slots to the frontend's endpoints. Endpoints that are in old keep their
// slots. The caller allocates the memory, for many at a time.
func (c *Config) initState(p *frontendState, f *model.Frontend, old slots) {
	*p = frontendState{Frontend: *f}
	p.tracksAddrs = c.DropInvalid && f.Match.Protocol == model.TCP
	p.answersPing = f.AnswersPing() || !c.PingTo[f.Match.Family].IsValid()
	if f.IsClusterIP() {
		p.slots, p.numbers = old.next(f.Pool), numbersOf(f.Pool)
	}
	if p.Served() {
		p.chain = p.target()
	}
}

// next assigns slots to the endpoints of a pool, which had these before.
func (s *slots) next(p *model.Pool) slots {
	out := slots{of: p}
	assign := func(local bool) []netip.AddrPort {
		after := spreadOf(p, local)
		switch {
		case len(after.endpoints) == 0:
			return nil
		case methodOf(p, p.Slots(local)).isMaglev():
			out.of = nil
			return model.MaglevTable(after.endpoints, p.List(local).Weights, maglevSize)
		case s.of != nil:
			return reassignSlots(s.list(local), spreadOf(s.of, local), after)
		}
		return assignSlots(s.list(local), after)
	}
	out.cluster, out.local = assign(false), assign(true)
	return out
}

// spreadOf returns one of the two lists of a pool with its shares.
func spreadOf(p *model.Pool, local bool) spread {
	list := p.List(local)
	return spread{list.Endpoints, list.Shares}
}

// methodOf returns how to pick one of n slots of the pool.
func methodOf(p *model.Pool, n int) (m method) {
	if p.Affinity > 0 {
		return pickSticky
	}
	for by := p.PicksOneOf(n); methodSchema[m].scheduler != by; {
		m++
	}
	if p.RetryRefused && n > 1 {
		m += pickRandomRetry
	}
	return m
}

func (m method) isMaglev() bool { return m.once() == pickMaglev }

// balancer completes a chain by how it picks an endpoint of the pool, and from how many
// slots.
func (p *frontendState) balancer(id ChainID) ChainID {
	n := p.Pool.Slots(id.Local)
	id.Family, id.Method, id.N = p.Match.Family, methodOf(p.Pool, n), uint32(n)
	if id.Method.isMaglev() {
		id.N = maglevSize
	}
	if id.Method == pickSticky {
		id.N = slotClass(n)
		id.Seconds = uint32(p.Pool.Affinity / time.Second)
	}
	return id
}

// target is the chain that the frontend's connections go to. Its name has all that decides
// how they are treated.
func (p *frontendState) target() ChainID {
	var id ChainID
	switch {
	case p.BypassesPolicy():
		id = ChainID{Kind: ChainExternalLocal, NodePort: p.nodePort()}
	case !p.IsClusterIP():
		id = ChainID{Kind: ChainExternal, NodePort: p.nodePort()}
	case p.Masquerade == model.MasqueradeAlways:
		id = ChainID{Kind: ChainMasquerade}
	case p.Masquerade == model.MasqueradeOffPod:
		id = ChainID{Kind: ChainCluster}
	default:
		id = ChainID{Kind: ChainBalance}
	}
	id.Local = p.IsClusterIP() && p.Policy == model.PolicyLocal
	return p.balancer(id)
}

func (p *frontendState) nodePort() bool { return p.Kind == model.KindNodePort }

// keyOf is the key of a match in the dispatch maps.
func keyOf(m model.Match) Key { return Key{Addr: m.Addr, Protocol: m.Protocol, Port: m.Port} }

// match is the match of such a key.
func (k *Key) match(f model.Family) model.Match {
	return model.Match{Family: f, Addr: k.Addr, Protocol: k.Protocol, Port: k.Port}
}

// A slotList is one of the two lists of endpoints, with the kind of its sets.
type slotList struct {
	*frontendState
	kind  SetKind
	local bool
	list  []netip.AddrPort
	// spread has the distinct endpoints, and numbers their numbers, if they have some.
	spread  spread
	numbers []uint32
}

// slotList returns the list of all endpoints, or of those on this node.
func (p *frontendState) slotList(local bool) slotList {
	r := slotList{frontendState: p, kind: SetEndpoints, local: local, list: p.slots.list(local)}
	if p.numbers != nil {
		r.spread, r.numbers = spreadOf(p.Pool, local), p.numbers.list(local)
	}
	switch {
	case p.Pool.Affinity > 0:
		r.kind = SetStickyNumbers
	case len(r.list) > MaxSlots:
		r.kind = SetEndpointsMany
	}
	return r
}

// set is the set of the list's elements; of the first one, if each has its own.
func (r *slotList) set() SetID { return SetID{Family: r.Match.Family, Kind: r.kind, Local: r.local} }

// at is the element of the endpoint in slot k.
func (r *slotList) at(k int) setElement {
	id := r.set()
	if r.kind.slotted() {
		id.Slot = uint16(k)
	}
	return r.element(id, k, &r.list[k])
}

// number is the number of the endpoint in slot k, if clients are remembered.
func (r *slotList) number(k int) uint32 {
	i := k // as long as no endpoint has another slot
	if k >= len(r.numbers) || r.spread.endpoints[k] != r.list[k] {
		i, _ = r.spread.find(r.list[k])
	}
	return r.numbers[i]
}

// numbersSet is the set that has the endpoint of each number.
func (r *slotList) numbersSet() SetID {
	return SetID{Family: r.Match.Family, Kind: SetStickyEndpoints, Local: r.local}
}

// numbered is the element that maps number i to its endpoint.
func (r *slotList) numbered(i int) setElement {
	return r.element(r.numbersSet(), i, &r.spread.endpoints[i])
}

// endpointIPKey is the key of an address in SetEndpointIPs.
func endpointIPKey(a netip.Addr) Key {
	return Key{Source: unique.Make(netip.PrefixFrom(a, a.BitLen()))}
}

// sharedKeys appends the elements that several frontends may need: the pods that may reach
// themselves, and the addresses of endpoints.
func (p *frontendState) sharedKeys(out []sharedKey) []sharedKey {
	if !p.IsClusterIP() {
		return out
	}
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

// endpointIP is the element of an endpoint's address.
func (p *frontendState) endpointIP(e netip.AddrPort) sharedKey {
	return p.shared(SetEndpointIPs, endpointIPKey(e.Addr()))
}

// endpointIPs are the endpoints whose addresses are in SetEndpointIPs.
func (p *frontendState) endpointIPs() [2][]netip.AddrPort {
	if !p.tracksAddrs {
		return [2][]netip.AddrPort{}
	}
	return [2][]netip.AddrPort{p.Pool.Cluster, p.Pool.Local}
}

// prefixElements are the elements of an interval set that together cover the prefixes:
// sorted, and none within another one, which the kernel would refuse.
func prefixElements(prefixes []netip.Prefix) []Element {
	var out []Element
	for _, p := range outermost(prefixes) {
		out = append(out, Element{Key: Key{Addr: p.Addr(), Bits: uint8(p.Bits())}})
	}
	return out
}

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
