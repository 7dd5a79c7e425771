package simulate

import (
	"net/netip"

	"kube-vmap/model"
)

// A sourceCache asks the sources for each thing once, however many walks need it.
type sourceCache struct {
	Sources
	family     model.Family
	baseChains map[Hook][]BaseChain
	rules      map[Chain][]Rule
	sets       map[setName]*Set
	elements   map[elementKey]foundElement
	routes     map[RouteQuery]foundRoute
	types      map[netip.Addr]uint32
	sources    map[egress]netip.Addr
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

// egress is an interface and the next hop.
type egress struct {
	out Link
	via netip.Addr
}

func newSourceCache(s Sources, f model.Family) *sourceCache {
	return &sourceCache{
		Sources: s, family: f,
		rules: map[Chain][]Rule{}, sets: map[setName]*Set{}, elements: map[elementKey]foundElement{},
		routes: map[RouteQuery]foundRoute{}, types: map[netip.Addr]uint32{}, sources: map[egress]netip.Addr{},
	}
}

// baseChainsAt returns the base chains of a hook in the order in which packets pass them.
func (m *sourceCache) baseChainsAt(h Hook) ([]BaseChain, error) {
	if m.baseChains == nil {
		list, err := m.Rules.BaseChains(m.family)
		if err != nil {
			return nil, err
		}
		m.baseChains = orderBaseChains(list)
	}
	return m.baseChains[h], nil
}

func (m *sourceCache) rulesOf(c Chain) ([]Rule, error) {
	if list, ok := m.rules[c]; ok {
		return list, nil
	}
	list, err := m.Rules.Rules(c)
	if err == nil {
		m.rules[c] = list
	}
	return list, err
}

func (m *sourceCache) set(t Table, name string) (*Set, error) {
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

func (m *sourceCache) element(t Table, s *Set, key []byte) (Element, bool, error) {
	by := elementKey{t, s.Name, string(key)}
	if e, ok := m.elements[by]; ok {
		return e.Element, e.found, nil
	}
	e, found, err := s.Find(key)
	if err == nil {
		m.elements[by] = foundElement{e, found}
	}
	return e, found, err
}

func (m *sourceCache) route(w RouteQuery) (Route, error) {
	r, ok := m.routes[w]
	if !ok {
		r.Route, r.err = m.Network.Route(w)
		m.routes[w] = r
	}
	return r.Route, r.err
}

func (m *sourceCache) addressType(a netip.Addr) (uint32, error) {
	if kind, ok := m.types[a]; ok {
		return kind, nil
	}
	kind, err := m.Network.AddressType(a)
	if err == nil {
		m.types[a] = kind
	}
	return kind, err
}

func (m *sourceCache) source(out Link, via netip.Addr) (netip.Addr, error) {
	by := egress{out, via}
	if a, ok := m.sources[by]; ok {
		return a, nil
	}
	a, err := m.Network.Source(out, via)
	if err == nil {
		m.sources[by] = a
	}
	return a, err
}
