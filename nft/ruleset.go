package nft

import (
	"maps"
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// Ruleset is the state of the tables as they stand. It is changed by committing
// a [Plan] and in no other way; [Ruleset.MarkFull] is for the next one.
//
// It does not keep elements: a frontend and its slots say which elements it has,
// and comparing those of before and after costs what the frontend costs.
type Ruleset struct {
	config    Config
	frontends map[model.Match]*frontendState
	cidrs     []netip.Prefix
	nodeAddrs []netip.Addr
	shared    map[sharedKey]int // how many frontends need a shared element
	uses      refCounts         // the chains and sets that come with use
	cache     *referenceCache
	counts    map[SetID]int    // elements of each set
	sizes     map[SetID]uint32 // the sets there are, and for how many elements
	full      map[SetID]bool   // those that take no more, whatever their size
	endpoints int              // in all pools
	peaks     [2]int           // of frontends and shared
}

// sharedKey is an element that several frontends may need.
type sharedKey struct {
	set SetID
	key Key
}

// Change is what the world wants to be different. A match occurs in it at most
// once.
type Change struct {
	// Set are frontends that are new or not as they were; Gone are those that
	// should not be there any more.
	Set  []model.Frontend
	Gone []model.Match
	// ServiceCIDRs are the ranges ClusterIPs come from; nil leaves them as they
	// are.
	ServiceCIDRs *[]netip.Prefix
	// NodeAddrs are the addresses that serve node ports; nil leaves them as they
	// are.
	NodeAddrs *[]netip.Addr
}

// newRuleset makes the state of a machine without our tables, with room for n
// frontends.
func newRuleset(c Config, n int) *Ruleset {
	r := &Ruleset{
		config:    c,
		frontends: make(map[model.Match]*frontendState, n),
		shared:    make(map[sharedKey]int, n),
		uses:      refCounts{},
		counts:    map[SetID]int{},
		sizes:     map[SetID]uint32{},
		full:      map[SetID]bool{},
	}
	r.cache = newReferenceCache(&r.config)
	for _, f := range model.Families {
		if c.CountConnections { // what the configuration needs comes with use, but to stay
			r.uses.add(r.cache, nil, reference{chain: ChainID{Family: f, Kind: ChainNATInput}}, 1)
		}
	}
	return r
}

// Adopt makes the state that the frontends should lead to on a machine whose
// kernel holds have, and the batch that brings it there, empty if nothing is to
// be done. Endpoints that the kernel has keep the slot they have there.
func Adopt(c Config, have Tables, want Change) (*Ruleset, Batch) {
	r := newRuleset(c, len(want.Set))
	old := slotsIn(have)
	list, all := make([]*frontendState, len(want.Set)), make([]frontendState, len(want.Set))
	for i := range want.Set {
		p := &all[i]
		c.placeAt(p, want.Set[i], old[want.Set[i].Match])
		list[i], r.frontends[p.Match] = p, p
		r.endpoints += p.endpoints()
	}
	if want.ServiceCIDRs != nil {
		r.cidrs = *want.ServiceCIDRs
	}
	if want.NodeAddrs != nil {
		r.nodeAddrs = *want.NodeAddrs
	}
	content := r.gather(list, r)
	content.count(r.counts)
	r.sizes = r.sizesFor(have)
	return r, r.diff(have, content)
}

// Snapshot is the state as it is now, for another goroutine to compare with the
// kernel; nothing can be planned against it.
func (r *Ruleset) Snapshot() *Ruleset {
	s := *r
	s.cache = newReferenceCache(&s.config)
	s.frontends, s.uses, s.sizes = maps.Clone(r.frontends), maps.Clone(r.uses), maps.Clone(r.sizes)
	s.shared, s.counts, s.full = nil, nil, nil
	return &s
}

// Config is what shapes the rule set.
func (r *Ruleset) Config() Config { return r.config }

// Repair is the batch that leads from what the kernel holds to the state, empty if
// that is the same. What it is given belongs to it.
func (r *Ruleset) Repair(have Tables) Batch { return r.diff(have, r.contents()) }

// MarkFull notes that a set takes no more elements, whatever its size: the next
// [Plan] that adds to it makes it anew.
func (r *Ruleset) MarkFull(id SetID) { r.full[id] = true }

// MatchesOf lists what a Service has in the tables. It looks at all there is.
func (r *Ruleset) MatchesOf(name model.ServiceName) []model.Match {
	var out []model.Match
	for m, f := range r.frontends {
		if f.Service.ServiceName == name {
			out = append(out, m)
		}
	}
	return out
}

// ServiceAt is the Service that has a match in the tables; the zero value if none
// does.
func (r *Ruleset) ServiceAt(m model.Match) model.ServiceName {
	if f := r.frontends[m]; f != nil {
		return f.Service.ServiceName
	}
	return model.ServiceName{}
}

// has reports whether the set exists.
func (r *Ruleset) has(id SetID) bool {
	_, exists := r.sizes[id]
	return exists
}

// rules are the rules of a chain.
func (r *Ruleset) rules(id ChainID) []Rule { return r.config.rules(id, r.has) }

// refers is the chain that an element leads to, if that comes with use.
func (e *setElement) refers() (reference, bool) {
	if e.Value.Verdict != VerdictGoto || e.Value.Chain.Kind < baseChains {
		return reference{}, false
	}
	return reference{chain: e.Value.Chain}, true
}

// endpoints is how many endpoints the frontend brings along.
func (p *frontendState) endpoints() int {
	if !p.OwnsPool() {
		return 0
	}
	return len(p.Pool.Cluster) + len(p.Pool.Local)
}

// sizesFor is a size for each set that the state needs: the one it has, if that
// will do.
func (r *Ruleset) sizesFor(have Tables) map[SetID]uint32 {
	sizes := map[SetID]uint32{}
	set := func(id SetID) {
		sizes[id] = capacity(r.counts[id])
		if t := have[id.Family]; t != nil {
			shape := t.Sets[id.Name()].Shape
			if shape.Fits(id) && int(shape.Size) >= r.counts[id] {
				sizes[id] = shape.Size
			}
		}
	}
	for _, f := range model.Families {
		for kind := range baseSets {
			set(SetID{Family: f, Kind: kind})
		}
	}
	for o := range r.uses {
		if o.isSet {
			set(o.set)
		}
	}
	for id := range r.counts { // some may have elements that no rule looks for
		set(id)
	}
	return sizes
}

// slotsIn reads which endpoints the kernel has in which slots. Where slots are
// not dense, which only another program can have caused, the rest is forgotten.
func slotsIn(have Tables) map[model.Match]slots {
	out := map[model.Match]slots{}
	take := func(id SetID, slot func(Key) uint32) {
		for _, e := range have[id.Family].Sets[id.Name()].Elements {
			m := model.Match{Family: id.Family, Addr: e.Key.Addr, Protocol: e.Key.Protocol, Port: e.Key.Port}
			s := out[m]
			if list := s.list(id.Local); slot(e.Key) == uint32(len(list)) {
				s.extend(id.Local, e.Value.endpoint())
				out[m] = s
			}
		}
	}
	for f, t := range have {
		for _, local := range [...]bool{false, true} {
			for kind := SetEndpoints; t != nil && kind <= SetStickyEndpointsMany; kind++ {
				id := SetID{Family: model.Family(f), Kind: kind, Local: local}
				if !kind.slotted() {
					take(id, func(k Key) uint32 { return k.Pick })
					continue
				}
				for id.Slot = range MaxSlots {
					take(id, func(Key) uint32 { return uint32(id.Slot) })
				}
			}
		}
	}
	return out
}

// extend adds an endpoint to one of the lists.
func (s *slots) extend(local bool, e netip.AddrPort) {
	if local {
		s.local = append(s.local, e)
	} else {
		s.cluster = append(s.cluster, e)
	}
}

// KeyEndpoint is the endpoint that the element stands for.
func (v *Value) endpoint() netip.AddrPort {
	if v.Chain.Kind == ChainStickyEndpoint {
		return v.Chain.Sticky.Value().Endpoint
	}
	return v.Endpoint
}

// chains lists the chains of the state.
func (r *Ruleset) chains() []ChainID {
	var out []ChainID
	for _, f := range model.Families {
		for kind := range baseChains {
			out = append(out, ChainID{Family: f, Kind: kind})
		}
	}
	for o := range r.uses {
		if !o.isSet {
			out = append(out, o.chain)
		}
	}
	return out
}

// Capacities. The kernel spreads a set of a declared size over a fixed number of
// buckets, the next power of two of 4/3 of the size; three quarters of a power
// of two use them best.
const (
	minCapacity = 384 // 512 buckets, 4 KiB
	headroom    = 2   // room to grow, as a factor, before a set is built anew
)

// capacity is the size to declare for a set that has n elements now.
func capacity(n int) uint32 {
	size := minCapacity
	for size < n*headroom {
		size *= 2
	}
	return uint32(size)
}

// ofNode are the elements that no Service has: the ranges of ClusterIPs and the
// addresses that serve node ports.
func (r *Ruleset) ofNode() map[SetID][]Element { return nodeElements(r.cidrs, r.nodeAddrs) }

func nodeElements(cidrs []netip.Prefix, addrs []netip.Addr) map[SetID][]Element {
	out := map[SetID][]Element{}
	for _, f := range model.Families {
		ofFamily := slices.DeleteFunc(slices.Clone(cidrs), func(p netip.Prefix) bool {
			return model.FamilyOf(p.Addr()) != f
		})
		out[SetID{Family: f, Kind: SetServiceCIDRs}] = prefixElements(ofFamily)
		out[SetID{Family: f, Kind: SetNodeIPs}] = nil
	}
	for _, a := range addrs {
		id := SetID{Family: model.FamilyOf(a), Kind: SetNodeIPs}
		out[id] = append(out[id], Element{Key: Key{Addr: a}})
	}
	for id, elements := range out {
		out[id] = slices.CompactFunc(sorted(elements), sameKey)
	}
	return out
}

// Endpoints is how many endpoints the Service ports of the state have; one that
// serves the cluster and this node by itself, under two policies, counts twice.
func (r *Ruleset) Endpoints() int { return r.endpoints }
