package simulate

import (
	"net/netip"

	"kube-vmap/model"
)

// A sourceCache asks the sources for each thing once, however many walks need it.
type sourceCache struct {
	Sources
	family     model.Family
	brief      bool                 // for a [Session]
	baseChains map[Hook][]BaseChain // in the order in which packets pass them
	rules      map[Chain]*ruleList
	sets       map[setName]*Set
	elements   map[elementKey]foundElement
	routes     map[RouteQuery]foundRoute
	types      map[netip.Addr]uint32
	sources    map[egress]netip.Addr
	ipsets     map[IPSetQuery]bool
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
	if s.Indexes == nil {
		s.Indexes = &Indexes{}
	}
	return &sourceCache{
		Sources: s, family: f,
		rules: map[Chain]*ruleList{}, sets: map[setName]*Set{}, elements: map[elementKey]foundElement{},
		routes: map[RouteQuery]foundRoute{}, types: map[netip.Addr]uint32{}, sources: map[egress]netip.Addr{},
		ipsets: map[IPSetQuery]bool{},
	}
}

// cached returns the value of a key, which it reads unless the cache has it.
func cached[K comparable, V any](cache map[K]V, key K, read func() (V, error)) (V, error) {
	if v, ok := cache[key]; ok {
		return v, nil
	}
	v, err := read()
	if err == nil {
		cache[key] = v
	}
	return v, err
}

func (m *sourceCache) rulesOf(c Chain) (*ruleList, error) {
	return cached(m.rules, c, func() (*ruleList, error) {
		list, err := m.Rules.Rules(c)
		if err != nil || isOurs(c) {
			return &ruleList{rules: list}, err
		}
		return m.Indexes.of(list, m.family), nil
	})
}

func (m *sourceCache) set(t Table, name string) (*Set, error) {
	return cached(m.sets, setName{t, name}, func() (*Set, error) { return m.Rules.Set(t, name) })
}

func (m *sourceCache) element(t Table, s *Set, key []byte) (Element, bool, error) {
	e, err := cached(m.elements, elementKey{t, s.Name, string(key)}, func() (e foundElement, err error) {
		e.Element, e.found, err = s.Find(key)
		return e, err
	})
	return e.Element, e.found, err
}

func (m *sourceCache) route(q RouteQuery) (Route, error) {
	r, _ := cached(m.routes, q, func() (r foundRoute, _ error) {
		r.Route, r.err = m.Network.Route(q)
		return r, nil
	})
	return r.Route, r.err
}

func (m *sourceCache) addressType(a netip.Addr) (uint32, error) {
	return cached(m.types, a, func() (uint32, error) { return m.Network.AddressType(a) })
}

func (m *sourceCache) source(out Link, via netip.Addr) (netip.Addr, error) {
	return cached(m.sources, egress{out, via}, func() (netip.Addr, error) { return m.Network.Source(out, via) })
}
