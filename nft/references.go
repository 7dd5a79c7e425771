package nft

import "slices"

// A reference is a chain or set that a rule refers to.
type reference struct {
	chain ChainID
	set   SetID
	isSet bool
}

// onDemand reports whether the object comes into use by references, and is not in every
// table.
func (o reference) onDemand() bool {
	if o.isSet {
		return o.set.Kind >= baseSets
	}
	return o.chain.Kind >= baseChains
}

// references lists the chains and sets that the rules refer to, each once.
func references(rules []Rule) []reference {
	var out []reference
	add := func(o reference) {
		if !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	for _, rule := range rules {
		for i := range rule {
			for _, id := range rule[i].sets {
				add(reference{set: id, isSet: true})
			}
			for _, id := range rule[i].chains {
				add(reference{chain: id})
			}
			for _, id := range rule[i].Choices { // each is another one
				out = append(out, reference{chain: id})
			}
		}
	}
	return out
}

// A referenceCache has the references of chains, which are found by making their rules.
type referenceCache struct {
	config *Config
	known  map[ChainID][]reference
}

func newReferenceCache(c *Config) *referenceCache {
	return &referenceCache{config: c, known: map[ChainID][]reference{}}
}

// of lists what the rules of the chain refer to, but not what rules refer to that depend on the
// existence of a set: see [SetID.readBy].
func (c *referenceCache) of(id ChainID) []reference {
	list, known := c.known[id]
	if !known {
		list = references(c.config.rules(id, func(SetID) bool { return false }))
		// An external-local chain has its external chain in every configuration, even where
		// no rule jumps there because all sources are pods.
		if external := (reference{chain: id.as(ChainExternal)}); id.Kind == ChainExternalLocal &&
			!slices.Contains(list, external) {
			list = append(list, external)
		}
		c.known[id] = list
	}
	return list
}

func (c *referenceCache) forget(id ChainID) { delete(c.known, id) }

// readBy lists the chains among those given whose rules refer to the set.
func (id SetID) readBy(chains []ChainID, cache *referenceCache) []ChainID {
	var out []ChainID
	for _, c := range chains {
		if c.Family != id.Family {
			continue
		}
		reads := slices.Contains(cache.of(c), reference{set: id, isSet: true})
		switch c.Kind {
		case ChainSourceCheck, ChainNodePortCheck:
			reads = reads || id.Kind.hasSources()
		case ChainRetry:
			reads = reads || slices.Contains(
				[]SetKind{SetAffinity, SetServiceIPs, SetNodePortServiceIPs, SetNodePortServicePorts}, id.Kind)
		case ChainFilterPrerouting, ChainFilterOutputEarly: // if node ports are restricted
			reads = reads || id.Kind == SetRestrictedNodePorts || id.Kind == SetNodeIPs
		case ChainFilterOutput: // if a Service holds
			reads = reads || id.Kind == SetNoEndpointNodePorts || id.Kind == SetNodeIPs
		}
		if reads {
			out = append(out, c)
		}
	}
	return out
}

// readers are the chains that exist as long as a set of the kind has elements.
func (k SetKind) readers() []ChainKind {
	switch k {
	case SetRestricted:
		return []ChainKind{ChainFilterPrerouting, ChainFilterOutputEarly}
	case SetRestrictedNodePorts:
		return []ChainKind{ChainFilterPrerouting, ChainFilterOutputEarly, ChainNodePortCheck}
	case SetRefusals:
		return []ChainKind{ChainFilterPrerouting, ChainFilterOutputEarly, ChainRetry}
	}
	return nil
}

// refCounts counts the references to each object that is created on demand: from
// elements, and from rules of chains that are in use themselves. An object exists while
// its count is not zero. When it falls to zero, the object is deleted, and with it its
// own references.
//
//	elements --> external-3 --> service-3 --> lb-3 --> ep-0 --> endpoints-0
//	                                               \-> ep-1 --> endpoints-1
//	                                               \-> ep-2 --> endpoints-2
type refCounts map[reference]int

// add counts step references more (fewer if it is negative), on top of what base already
// counts.
func (u refCounts) add(cache *referenceCache, base refCounts, o reference, step int) {
	before := base[o] + u[o]
	u[o] += step
	after := before + step
	if (before == 0) == (after == 0) || o.isSet {
		return
	}
	own := 1 // a chain refers to each object once, however many references point to the chain
	if after == 0 {
		own = -1
	}
	for _, to := range cache.of(o.chain) {
		if to.onDemand() {
			u.add(cache, base, to, own)
		}
	}
}
