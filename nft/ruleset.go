package nft

import (
	"maps"
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// A Ruleset is the current state of the tables. Only [Ruleset.Commit] changes it;
// [Ruleset.MarkFull] affects the next plan.
//
// It does not keep elements: they follow from a frontend and its slots, and comparing
// them before and after a change costs what the frontend costs.
type Ruleset struct {
	config    Config
	frontends frontendList
	cidrs     []netip.Prefix
	nodeAddrs []netip.Addr
	shared    map[sharedKey]int // how many frontends need a shared element
	uses      refCounts         // references to the chains and sets created on demand
	cache     *referenceCache
	counts    map[SetID]int    // elements of each set
	sizes     map[SetID]uint32 // the sets that exist, and their sizes
	full      map[SetID]bool   // sets that accept no more elements, whatever their size
	endpoints int              // in all pools
	peak      int              // of shared
}

// A sharedKey is an element that several frontends may need.
type sharedKey struct {
	set SetID
	key Key
}

// A Change is a difference to the current state. A match occurs in it at most once.
type Change struct {
	// Set are frontends that are new or changed, Removed frontends to delete.
	Set     []model.Frontend
	Removed []model.Match
	// ServiceCIDRs are the ranges of ClusterIPs without host ranges; nil keeps them as they are.
	ServiceCIDRs *[]netip.Prefix
	// NodeAddrs are the addresses that serve node ports; nil keeps them as they are.
	NodeAddrs *[]netip.Addr
}

// newRuleset returns the state of a machine without our tables.
func newRuleset(c Config) *Ruleset {
	r := &Ruleset{
		config: c,
		shared: map[sharedKey]int{},
		uses:   refCounts{},
		counts: map[SetID]int{},
		sizes:  map[SetID]uint32{},
		full:   map[SetID]bool{},
	}
	r.cache = newReferenceCache(&r.config)
	for _, f := range model.Families {
		for kind, configured := range map[ChainKind]bool{ // chains that exist as long as the configuration
			ChainNATInput: c.CountConnections, ChainFilterPrerouting: c.DropInvalid,
		} {
			if configured {
				r.uses.add(r.cache, nil, reference{chain: ChainID{Family: f, Kind: kind}}, 1)
			}
		}
	}
	return r
}

// Adopt returns the state for the desired frontends on a machine whose kernel holds have,
// and the batch that brings the kernel there, which may be empty. Endpoints keep the slots
// that they have in the kernel.
func Adopt(c Config, have Tables, want Change) (*Ruleset, Batch) {
	r := newRuleset(c)
	old := slotsIn(have)
	want.Set = byMatch(want.Set)
	all := make([]frontendState, len(want.Set))
	list := make([]*frontendState, len(want.Set))
	g := newCollector()
	for i := range want.Set {
		p := &all[i]
		c.initState(p, &want.Set[i], old[want.Set[i].Match])
		list[i] = p
		r.endpoints += p.endpoints()
		g.add(p)
	}
	r.frontends = newFrontendList(list)
	g.count(r)
	if want.ServiceCIDRs != nil {
		r.cidrs = *want.ServiceCIDRs
	}
	if want.NodeAddrs != nil {
		r.nodeAddrs = *want.NodeAddrs
	}
	content := g.contents(r.nodeSets())
	content.count(r.counts)
	r.sizes = r.sizesFor(have)
	return r, r.diff(have, content)
}

// Snapshot returns a copy of the state, for another goroutine to compare with the kernel. It
// is not for planning.
func (r *Ruleset) Snapshot() *Ruleset {
	s := *r
	s.cache = newReferenceCache(&s.config)
	s.frontends, s.uses, s.sizes = r.frontends.clone(), maps.Clone(r.uses), maps.Clone(r.sizes)
	s.shared, s.counts, s.full = nil, nil, nil
	return &s
}

// Config returns the configuration of the rule set.
func (r *Ruleset) Config() Config { return r.config }

// Repair returns the batch that brings the kernel's tables to the state; it is empty if
// they are the same. It changes the tables that it is given.
func (r *Ruleset) Repair(have Tables) Batch { return r.diff(have, r.contents()) }

// MarkFull notes that a set accepts no more elements, whatever its size: the next [Plan]
// that adds to it rebuilds it.
func (r *Ruleset) MarkFull(id SetID) { r.full[id] = true }

// MatchesOf lists the frontends that a Service has in the tables. It walks all frontends.
func (r *Ruleset) MatchesOf(name model.ServiceName) []model.Match {
	var out []model.Match
	for f := range r.frontends.all() {
		if f.Service.ServiceName == name {
			out = append(out, f.Match)
		}
	}
	return out
}

// ServiceAt returns the Service that has a match in the tables, or the zero value.
func (r *Ruleset) ServiceAt(m model.Match) model.ServiceName {
	if f := r.frontends.at(m); f != nil {
		return f.Service.ServiceName
	}
	return model.ServiceName{}
}

// Missing returns the matches in tables that have no frontend in the rule set.
func (r *Ruleset) Missing(in Tables) (out []model.Match) {
	for f, table := range in {
		for _, kind := range [...]SetKind{SetServices, SetNodePorts} {
			id := SetID{Family: model.Family(f), Kind: kind}
			for i := 0; table != nil && i < len(table.Sets[id.Name()].Elements); i++ {
				m := table.Sets[id.Name()].Elements[i].Key.match(id.Family)
				if r.frontends.at(m) == nil {
					out = append(out, m)
				}
			}
		}
	}
	return out
}

func (r *Ruleset) has(id SetID) bool {
	_, exists := r.sizes[id]
	return exists
}

func (r *Ruleset) rules(id ChainID) []Rule { return r.config.rules(id, r.has) }

// byMatch returns the frontends sorted by match, as most lists are.
func byMatch(list []model.Frontend) []model.Frontend {
	for i := 1; i < len(list); i++ {
		if list[i-1].Match.Compare(list[i].Match) > 0 {
			return slices.SortedFunc(slices.Values(list), func(a, b model.Frontend) int { return a.Match.Compare(b.Match) })
		}
	}
	return list
}

// endpoints is the number of endpoints in the frontend's own pool.
func (p *frontendState) endpoints() int {
	if !p.IsClusterIP() {
		return 0
	}
	return len(p.Pool.Cluster) + len(p.Pool.Local)
}

// sizesFor returns a size for each set that the state needs: the one that it has in the
// kernel, if that is large enough.
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
	for id := range r.counts { // some may have elements that no rule looks up
		set(id)
	}
	return sizes
}

// slotsIn returns which endpoints the kernel has in which slots. Where slots are not dense,
// which only another program can cause, the rest is ignored.
func slotsIn(have Tables) map[model.Match]slots {
	out := map[model.Match]slots{}
	take := func(id SetID, slot func(Key) uint32) {
		for _, e := range have[id.Family].Sets[id.Name()].Elements {
			endpoint, known := have[id.Family].EndpointOf(id, &e)
			m := e.Key.match(id.Family)
			s := out[m]
			list := &s.cluster
			if id.Local {
				list = &s.local
			}
			if known && slot(e.Key) == uint32(len(*list)) {
				*list = append(*list, endpoint)
				out[m] = s
			}
		}
	}
	for f, t := range have {
		for _, local := range [...]bool{false, true} {
			for kind := SetEndpoints; t != nil && kind < SetStickyEndpoints; kind++ {
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
const minCapacity = 384 // 512 buckets, 4 KiB

// capacity is the size to declare for a set that has n elements now: at least half as many
// more fit before it is rebuilt. If twice as many fit, to load 100,000 elements into one
// map takes a third longer: its buckets fit into fewer caches.
func capacity(n int) uint32 {
	size := minCapacity
	for size < n+n/2 {
		size *= 2
	}
	return uint32(size)
}

// nodeSets are the elements that belong to no Service: the ranges of ClusterIPs and the
// addresses that serve node ports.
func (r *Ruleset) nodeSets() map[SetID][]Element { return nodeElements(r.cidrs, r.nodeAddrs) }

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
		out[id] = slices.CompactFunc(SortByKey(elements), sameKey)
	}
	return out
}

// Endpoints returns the number of endpoints of all Service ports. An endpoint that serves
// the cluster and, under the other policy, this node counts twice.
func (r *Ruleset) Endpoints() int { return r.endpoints }
