package simulate

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// A sourceCache asks the sources for each thing once, however many walks need it.
type sourceCache struct {
	Sources
	family     model.Family
	baseChains map[Hook][][]BaseChain // in the order in which packets pass them, by priority
	rules      memo[Chain, *ruleList]
	sets       memo[setName, *Set]
	elements   memo[elementKey, foundElement]
	routes     memo[RouteQuery, Route]
	types      memo[netip.Addr, uint32]
	sources    memo[egress, netip.Addr]
	ipsets     memo[IPSetQuery, bool]
	ports      memo[Link, []Port]
	neighbours memo[egress, Neighbour]
	linkChains []BaseChain // of tables of bridges and ARP
	// ingress are the interfaces by which the packet may come in; unknownIngress if routes do not show
	// by which.
	ingress        []Link
	unknownIngress bool
}

type setName struct {
	table Table
	name  string
}

type foundElement struct {
	Element
	found bool
}

type egress struct {
	out Link
	via netip.Addr
}

// A memo has results by what they were computed from, errors included. The zero value is ready.
type memo[K comparable, V any] struct{ known map[K]answer[V] }

type answer[V any] struct {
	value V
	err   error
}

func (m *memo[K, V]) get(key K, ask func() (V, error)) (V, error) {
	a, known := m.known[key]
	if !known {
		if m.known == nil {
			m.known = map[K]answer[V]{}
		}
		a.value, a.err = ask()
		m.known[key] = a
	}
	return a.value, a.err
}

func (m *sourceCache) rulesOf(c Chain) (*ruleList, error) {
	return m.rules.get(c, func() (*ruleList, error) {
		list, err := m.Rules.Rules(c)
		if err != nil || m.owns(c.Table) {
			return &ruleList{rules: list}, err
		}
		return newRuleList(list, m.family), nil
	})
}

func (m *sourceCache) set(t Table, name string) (*Set, error) {
	return m.sets.get(setName{t, name}, func() (*Set, error) { return m.Rules.Set(t, name) })
}

func (m *sourceCache) element(t Table, s *Set, key []byte) (Element, bool, error) {
	e, err := m.elements.get(elementKey{t, s.Name, string(key)}, func() (e foundElement, err error) {
		e.Element, e.found, err = s.Find(key)
		return e, err
	})
	return e.Element, e.found, err
}

func (m *sourceCache) route(q RouteQuery) (Route, error) {
	return m.routes.get(q, func() (Route, error) { return m.Network.Route(q) })
}

func (m *sourceCache) addressType(a netip.Addr) (uint32, error) {
	return m.types.get(a, func() (uint32, error) { return m.Network.AddressType(a) })
}

// isLocal reports whether an address belongs to the node.
func (m *sourceCache) isLocal(a netip.Addr) (bool, error) {
	kind, err := m.addressType(a)
	return kind == unix.RTN_LOCAL, err
}

func (m *sourceCache) source(out Link, via netip.Addr) (netip.Addr, error) {
	return m.sources.get(egress{out, via}, func() (netip.Addr, error) { return m.Network.Source(out, via) })
}
