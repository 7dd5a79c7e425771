package nft

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"kube-vmap/model"
)

// Ruleset is the state of the tables as they stand. It is changed by committing
// a [Plan] and in no other way.
//
// It does not keep elements: a frontend and its slots say which elements it has,
// and comparing those of before and after costs what the frontend costs.
type Ruleset struct {
	config    Config
	frontends map[model.Match]*programmed
	cidrs     []netip.Prefix
	shared    map[sharedKey]int // how many frontends need a shared element
	targets   map[ChainID]int   // how many frontends go to a chain
	counts    map[SetID]int     // elements of each set
	sizes     map[SetID]uint32  // the sets there are, and for how many elements
	chains    map[ChainID]struct{}
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
}

// newRuleset makes the state of a machine without our tables, with room for n
// frontends.
func newRuleset(c Config, n int) *Ruleset {
	return &Ruleset{
		config:    c,
		frontends: make(map[model.Match]*programmed, n),
		shared:    make(map[sharedKey]int, n),
		targets:   map[ChainID]int{},
		counts:    map[SetID]int{},
		sizes:     map[SetID]uint32{},
		chains:    map[ChainID]struct{}{},
	}
}

// Adopt makes the state that the frontends should lead to on a machine whose
// kernel holds have, and the batch that brings it there, empty if nothing is to
// be done. Endpoints that the kernel has keep the slot they have there.
func Adopt(c Config, have Tables, want Change) (*Ruleset, Batch) {
	r := newRuleset(c, len(want.Set))
	slots := slotsIn(have)
	list := make([]*programmed, len(want.Set))
	for i := range want.Set {
		f := want.Set[i]
		list[i] = place(f, assignSlots(slots[f.Match], f.Endpoints))
		r.put(list[i])
	}
	if want.ServiceCIDRs != nil {
		r.cidrs = *want.ServiceCIDRs
	}
	for id, elements := range cidrElements(r.cidrs) {
		r.counts[id] = len(elements)
	}
	r.chains, r.sizes = r.objects(have)
	return r, r.diff(have, r.elements(list))
}

// put counts a frontend in.
func (r *Ruleset) put(p *programmed) {
	r.frontends[p.Match] = p
	if p.Verdict == model.Balance {
		r.targets[p.target()]++
	}
	var own [16]placed
	for _, e := range p.compile(own[:0]) {
		r.counts[e.set]++
	}
	for _, e := range p.share(own[:0]) {
		k := sharedKey{e.set, e.Key}
		if r.shared[k]++; r.shared[k] == 1 {
			r.counts[e.set]++
		}
	}
}

// objects are the chains and sets that the state needs, with a size for each set:
// the one it has, if that will do.
func (r *Ruleset) objects(have Tables) (map[ChainID]struct{}, map[SetID]uint32) {
	chains, sets := needed(maps.Keys(r.targets))
	sizes := map[SetID]uint32{}
	for id := range sets {
		sizes[id] = capacity(r.counts[id])
		if t := have[id.Family]; t != nil {
			shape := t.Sets[id.Name()].Shape
			if shape.Ours(id) && int(shape.Size) >= r.counts[id] {
				sizes[id] = shape.Size
			}
		}
	}
	return chains, sizes
}

// slotsIn reads which endpoints the kernel has in which slots. Where slots are
// not dense, which only another program can have caused, the rest is forgotten.
func slotsIn(have Tables) map[model.Match][]netip.AddrPort {
	slots := map[model.Match][]netip.AddrPort{}
	for _, f := range model.Families {
		if have[f] == nil {
			continue
		}
		take := func(id SetID, slot func(Key) uint32) {
			for _, e := range have[f].Sets[id.Name()].Elements {
				m := model.Match{Family: f, Addr: e.Key.Addr, Protocol: e.Key.Protocol, Port: e.Key.Port}
				if s := slots[m]; slot(e.Key) == uint32(len(s)) {
					slots[m] = append(s, e.Value.Endpoint)
				}
			}
		}
		for k := range uint16(MaxSlots) {
			take(SetID{f, Endpoints, k}, func(Key) uint32 { return uint32(k) })
		}
		take(SetID{Family: f, Kind: EndpointsMany}, func(k Key) uint32 { return k.Pick })
	}
	return slots
}

// needed follows what the targets refer to, down to the sets. Base chains and
// the sets they read are always needed.
func needed(targets iter.Seq[ChainID]) (map[ChainID]struct{}, map[SetID]struct{}) {
	chains, sets := map[ChainID]struct{}{}, map[SetID]struct{}{}
	for _, f := range model.Families {
		for kind := range baseChains {
			chains[ChainID{Family: f, Kind: kind}] = struct{}{}
		}
		for kind := range Endpoints {
			sets[SetID{Family: f, Kind: kind}] = struct{}{}
		}
	}
	var follow func(ChainID)
	follow = func(id ChainID) {
		if _, seen := chains[id]; seen {
			return
		}
		chains[id] = struct{}{}
		for _, o := range id.needs() {
			if o.isSet {
				sets[o.set] = struct{}{}
			} else {
				follow(o.chain)
			}
		}
	}
	for id := range targets {
		follow(id)
	}
	return chains, sets
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

// users are the chains among those that exist whose rules read the set.
func (r *Ruleset) users(id SetID) []ChainID {
	base := func(kinds ...ChainKind) []ChainID {
		var out []ChainID
		for _, k := range kinds {
			out = append(out, ChainID{Family: id.Family, Kind: k})
		}
		return out
	}
	switch id.Kind {
	case Services:
		return base(NATPrerouting, NATOutput)
	case NoEndpointServices:
		return base(FilterInput, ServiceCheck)
	case ClusterIPs, ServiceCIDRs:
		return base(ServiceCheck)
	case Hairpin:
		return base(NATPostrouting)
	case Endpoints:
		return []ChainID{{id.Family, Endpoint, uint32(id.Slot)}}
	}
	var many []ChainID
	for c := range r.chains {
		if c.Family == id.Family && c.Kind == Balance && c.N > MaxSlots {
			many = append(many, c)
		}
	}
	return many
}

// cidrElements are the elements of the ranges of ClusterIPs.
func cidrElements(cidrs []netip.Prefix) map[SetID][]Element {
	out := map[SetID][]Element{}
	for _, f := range model.Families {
		ofFamily := slices.DeleteFunc(slices.Clone(cidrs), func(p netip.Prefix) bool {
			return model.FamilyOf(p.Addr()) != f
		})
		out[SetID{Family: f, Kind: ServiceCIDRs}] = prefixElements(ofFamily)
	}
	return out
}

// Endpoints is how many endpoints the state has, each counted with every
// frontend it serves.
func (r *Ruleset) Endpoints() int {
	n := 0
	for id, count := range r.counts {
		if id.layout().content == contentEndpoint {
			n += count
		}
	}
	return n
}

// Elements lists what every set of the state holds, sorted by key.
func (r *Ruleset) Elements() map[SetID][]Element {
	list := make([]*programmed, 0, len(r.frontends))
	return r.elements(slices.AppendSeq(list, maps.Values(r.frontends)))
}

// elements is Elements, with all frontends of the state at hand. They are
// sorted, and so is then nearly all they have.
func (r *Ruleset) elements(list []*programmed) map[SetID][]Element {
	byMatch := func(a, b *programmed) int { return a.Match.Compare(b.Match) }
	if !slices.IsSortedFunc(list, byMatch) {
		slices.SortFunc(list, byMatch)
	}
	out := cidrElements(r.cidrs)
	for id := range r.sizes {
		out[id] = slices.Grow(out[id], r.counts[id])
	}
	var buf []placed
	for _, p := range list {
		buf = p.share(p.compile(buf[:0]))
		for _, e := range buf {
			out[e.set] = append(out[e.set], e.Element)
		}
	}
	for id, elements := range out {
		out[id] = slices.CompactFunc(sorted(elements), sameKey)
	}
	return out
}
