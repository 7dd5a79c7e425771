package nft

import (
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
func (r *Ruleset) contents() *contents { return r.collect(nil) }

// collect makes the elements of the state in one pass over its frontends. References and
// shared elements are counted in the given ruleset, unless that is nil.
func (r *Ruleset) collect(count *Ruleset) *contents {
	g := newCollector(r.frontends)
	leading := map[ChainID]int{}
	var own []setElement
	var shared []sharedKey
	for _, p := range r.frontends {
		g.endpoints(p)
		own = p.ownElements(own[:0])
		for i := range own {
			g.put(&own[i])
			if o, ok := own[i].refers(); ok {
				leading[o.chain]++
			}
		}
		shared = p.share(shared[:0])
		for _, k := range shared {
			g.put(&setElement{k.set, Element{Key: k.key}})
			if count != nil && k.set.Kind != SetClusterIPs {
				count.shared[k]++
			}
		}
	}
	if count != nil {
		for chain, n := range leading {
			count.uses.add(count.cache, nil, reference{chain: chain}, n)
		}
	}
	return g.contents(r.nodeSets())
}

// A collector collects elements by the numbers of their sets: hundreds of thousands of
// look-ups in a hash table would be most of the time of a first load.
type collector struct {
	sets  [][]Element
	slots [][]slot
}

// number is the number of a set.
func (id SetID) number() int {
	n := (int(id.Family)*int(setKinds) + int(id.Kind)) * 2
	if id.Local {
		n++
	}
	return n*MaxSlots + int(id.Slot)
}

// newCollector returns a collector with room for the elements that most frontends have.
func newCollector(list frontendList) *collector {
	last := SetID{Family: model.Families[len(model.Families)-1], Kind: setKinds, Local: true}.number()
	g := &collector{make([][]Element, last), make([][]slot, last)}
	lengths := make([]int32, last)
	for _, p := range list {
		lengths[SetID{Family: p.Match.Family, Kind: SetServices}.number()]++
		if p.OwnsPool() {
			lengths[SetID{Family: p.Match.Family, Kind: SetClusterIPs}.number()]++
		}
		for _, local := range [...]bool{false, true} {
			slotList := p.slotList(local)
			at := lengths[slotList.set().number():]
			switch {
			case slotList.kind.slotted():
				for k := range slotList.list {
					at[k]++
				}
			default:
				at[0] += int32(len(slotList.list))
			}
			lengths[slotList.numbersSet().number()] += int32(len(slotList.numbers))
		}
	}
	for n, room := range lengths {
		switch {
		case room == 0:
		case setNumbered(n).Kind.hasEndpoints():
			g.slots[n] = make([]slot, 0, room)
		default:
			g.sets[n] = make([]Element, 0, room)
		}
	}
	return g
}

func (g *collector) put(e *setElement) {
	n := e.set.number()
	g.sets[n] = append(g.sets[n], e.Element)
}

// endpoints collects the slots of a frontend's endpoints.
func (g *collector) endpoints(p *frontendState) {
	for _, local := range [...]bool{false, true} {
		slotList := p.slotList(local)
		first := slotList.set().number()
		for k := range slotList.list {
			n := first
			if slotList.kind.slotted() {
				n += k
			}
			g.slots[n] = append(g.slots[n], slot{p, uint32(k)})
		}
		n := slotList.numbersSet().number()
		for i := range slotList.numbers {
			g.slots[n] = append(g.slots[n], slot{p, uint32(i)})
		}
	}
}

// contents returns the elements of each set that has some, and the given ones; sorted, each
// once.
func (g *collector) contents(others map[SetID][]Element) *contents {
	out := &contents{others, map[SetID][]slot{}}
	for n, elements := range g.sets {
		if len(elements) > 0 {
			// They are in the order of frontends, which is that of most keys.
			out.elements[setNumbered(n)] = slices.CompactFunc(sorted(elements), sameKey)
		}
	}
	for n, slots := range g.slots {
		if len(slots) > 0 {
			out.slots[setNumbered(n)] = slots
		}
	}
	return out
}

// setNumbered is the set of a number.
func setNumbered(n int) SetID {
	slot, n := n%MaxSlots, n/MaxSlots
	local, n := n%2 == 1, n/2
	return SetID{
		Family: model.Family(n / int(setKinds)), Kind: SetKind(n % int(setKinds)), Local: local, Slot: uint16(slot),
	}
}
