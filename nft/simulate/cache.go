package simulate

import (
	"net/netip"

	"kube-vmap/model"
)

// memo asks the sources for a thing once, however many ways meet it.
type memo struct {
	Sources
	family   model.Family
	bases    map[Hook][]Base
	rules    map[Chain][]Rule
	sets     map[setName]*Set
	elements map[entry]foundElement
	routes   map[Way]foundRoute
	types    map[netip.Addr]uint32
	sources  map[leaving]netip.Addr
}

type setName struct {
	table Table
	name  string
}

type foundElement struct {
	Element
	found bool
}

type foundRoute struct {
	Route
	err error
}

// leaving is a packet that leaves by an interface towards somebody.
type leaving struct {
	out Link
	via netip.Addr
}

func newMemo(s Sources, f model.Family) *memo {
	return &memo{
		Sources: s, family: f,
		rules: map[Chain][]Rule{}, sets: map[setName]*Set{}, elements: map[entry]foundElement{},
		routes: map[Way]foundRoute{}, types: map[netip.Addr]uint32{}, sources: map[leaving]netip.Addr{},
	}
}

// at are the base chains of a hook in the order in which packets pass them.
func (m *memo) at(h Hook) ([]Base, error) {
	if m.bases == nil {
		list, err := m.Rules.Bases(m.family)
		if err != nil {
			return nil, err
		}
		m.bases = inOrder(list)
	}
	return m.bases[h], nil
}

func (m *memo) rulesOf(c Chain) ([]Rule, error) {
	if list, ok := m.rules[c]; ok {
		return list, nil
	}
	list, err := m.Rules.Rules(c)
	if err == nil {
		m.rules[c] = list
	}
	return list, err
}

func (m *memo) set(t Table, name string) (*Set, error) {
	by := setName{t, name}
	if s := m.sets[by]; s != nil {
		return s, nil
	}
	s, err := m.Rules.Set(t, name)
	if err == nil {
		m.sets[by] = s
	}
	return s, err
}

func (m *memo) element(t Table, s *Set, key []byte) (Element, bool, error) {
	by := entry{t, s.Name, string(key)}
	if e, ok := m.elements[by]; ok {
		return e.Element, e.found, nil
	}
	e, found, err := s.Find(key)
	if err == nil {
		m.elements[by] = foundElement{e, found}
	}
	return e, found, err
}

func (m *memo) route(w Way) (Route, error) {
	r, ok := m.routes[w]
	if !ok {
		r.Route, r.err = m.Network.Route(w)
		m.routes[w] = r
	}
	return r.Route, r.err
}

func (m *memo) addressType(a netip.Addr) (uint32, error) {
	if kind, ok := m.types[a]; ok {
		return kind, nil
	}
	kind, err := m.Network.AddressType(a)
	if err == nil {
		m.types[a] = kind
	}
	return kind, err
}

func (m *memo) source(out Link, via netip.Addr) (netip.Addr, error) {
	by := leaving{out, via}
	if a, ok := m.sources[by]; ok {
		return a, nil
	}
	a, err := m.Network.Source(out, via)
	if err == nil {
		m.sources[by] = a
	}
	return a, err
}
