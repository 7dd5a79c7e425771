package nft

import (
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// Elements returns the elements of every set of the state, sorted by key, without those that
// packets add.
func (r *Ruleset) Elements() map[SetID][]Element {
	out := r.contents().all()
	for id := range r.sizes {
		if _, filled := out[id]; !filled {
			out[id] = nil
		}
	}
	return out
}

// contents returns the elements of the state.
func (r *Ruleset) contents() *contents { return r.frontends.contents(r.nodeSets()) }

// contents returns the elements of the frontends, and the given ones of other sets.
func (l *frontendList) contents(others map[SetID][]Element) *contents {
	g := newCollector()
	for p := range l.all() {
		g.add(p)
	}
	return g.contents(others)
}

// A collector collects the elements of frontends, which are added in their order. It has the
// sets by number: hundreds of thousands of look-ups in a hash table would be most of the
// time of a first load.
type collector struct {
	sets   []collected
	shared map[sharedKey]int // how many frontends need an element
	// leading is how many elements jump to a chain created on demand, without the last
	// ones, which jump to lastChain: most jump to the same chain as the one before.
	leading   map[ChainID]int
	lastChain ChainID
	last      int
	first     *frontendState // the first one of the address that was added last
	address   addressCount   // of that address, so far

	elements []setElement // reused from frontend to frontend, as sharedKeys
	keys     []sharedKey
}

// collected is what a set has: references or, if they are few, elements.
type collected struct {
	id       SetID
	refs     refList
	elements []Element
}

func newCollector() *collector {
	return &collector{sets: make([]collected, lastNumber), shared: map[sharedKey]int{}, leading: map[ChainID]int{}}
}

// firstNumbers are the numbers of the first set of each kind.
var firstNumbers, lastNumber = func() (first [len(model.Families)][setKinds]int, next int) {
	for f := range first {
		for kind := range setKinds {
			first[f][kind] = next
			next += 2
			if kind.slotted() {
				next += 2 * MaxSlots
			}
		}
	}
	return first, next
}()

// number is the number of a set. Successive slots have successive numbers.
func (id SetID) number() int {
	n := firstNumbers[id.Family][id.Kind] + int(id.Slot)
	switch {
	case !id.Local:
		return n
	case id.Kind.slotted():
		return n + 1 + MaxSlots
	}
	return n + 1
}

func (g *collector) add(p *frontendState) {
	if g.first == nil || g.first.Match.Addr != p.Match.Addr {
		g.endAddress()
		g.first = p
	}
	g.address = g.address.plus(p.addressCount(), 1)
	var kinds [8]SetKind
	for _, kind := range p.ownKinds(kinds[:0]) {
		g.set(SetID{Family: p.Match.Family, Kind: kind}).refer(p, 0, nil)
		if setSchema[kind].layout.Content == ContentVerdict {
			g.lead(p.ownValue(kind))
		}
		for _, reader := range kind.readers() {
			g.lead(goesTo(ChainID{Family: p.Match.Family, Kind: reader}))
		}
	}
	g.endpoints(p)
	g.elements = p.sources(g.elements[:0])
	for i := range g.elements {
		g.set(g.elements[i].set).put(g.elements[i].Element)
	}
	g.keys = p.sharedKeys(g.keys[:0])
	for _, k := range g.keys {
		g.set(k.set).put(Element{Key: k.key})
		g.shared[k]++
	}
}

func (g *collector) set(id SetID) *collected {
	s := &g.sets[id.number()]
	s.id = id
	return s
}

// refer adds element k of a frontend, which may be an endpoint.
func (s *collected) refer(p *frontendState, k int, to *netip.AddrPort) {
	s.refs.add(elementRef{p, uint32(k), to})
}

func (s *collected) put(e Element) { s.elements = append(s.elements, e) }

// endAddress adds the elements of an address whose frontends have all been added.
func (g *collector) endAddress() {
	for kind := SetClusterIPs; kind.ofAddresses(); kind++ {
		if g.address.needs(kind) {
			g.set(SetID{Family: g.first.Match.Family, Kind: kind}).refer(g.first, 0, nil)
		}
	}
	g.address = addressCount{}
}

// lead counts an element of a verdict map.
func (g *collector) lead(v Value) {
	if !v.refers() {
		return
	}
	if v.Chain != g.lastChain {
		g.leading[g.lastChain] += g.last
		g.lastChain, g.last = v.Chain, 0
	}
	g.last++
}

func (g *collector) endpoints(p *frontendState) {
	for _, local := range [...]bool{false, true} {
		if len(p.slots.list(local)) == 0 {
			continue
		}
		slotList := p.slotList(local)
		id := slotList.set()
		for k := range slotList.list {
			if slotList.kind.slotted() {
				id.Slot = uint16(k)
			}
			g.set(id).refer(p, k, &slotList.list[k])
		}
		for i := range slotList.numbers {
			g.set(slotList.numbersSet()).refer(p, i, &slotList.spread.endpoints[i])
		}
	}
}

// count adds the collected references and shared elements to the counts of a state.
func (g *collector) count(r *Ruleset) {
	g.leading[g.lastChain] += g.last
	g.last = 0
	for chain, n := range g.leading {
		if n > 0 {
			r.uses.add(r.cache, nil, reference{chain: chain}, n)
		}
	}
	r.shared = g.shared
}

// contents returns the elements of each set that has some, and the given ones; sorted, each
// once.
func (g *collector) contents(others map[SetID][]Element) *contents {
	g.endAddress()
	out := &contents{others, map[SetID]*refList{}}
	for i := range g.sets {
		switch s := &g.sets[i]; {
		case len(s.refs) > 0:
			out.refs[s.id] = &s.refs
		case len(s.elements) > 0:
			out.elements[s.id] = slices.CompactFunc(SortByKey(s.elements), sameKey)
		}
	}
	return out
}
