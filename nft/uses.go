package nft

// reference is a chain or set that comes with use.
type reference struct {
	chain ChainID
	set   SetID
	isSet bool
}

// uses counts by what each object is referred to: by elements, or by rules of
// chains that are in use themselves. What it counts exists; what falls to zero
// goes, and with it its own references.
//
//	elements --> external-3 --> service-3 --> lb-3 --> ep-0 --> endpoints-0
//	                                               \-> ep-1 --> endpoints-1
//	                                               \-> ep-2 --> endpoints-2
type uses map[reference]int

// add counts step references more, or fewer if it is negative, on top of what base
// counts already.
func (u uses) add(base uses, o reference, step int) {
	before := base[o] + u[o]
	u[o] += step
	after := before + step
	if (before == 0) == (after == 0) || o.isSet {
		return
	}
	own := 1 // a chain refers once to what it needs, however many lead to it
	if after == 0 {
		own = -1
	}
	for _, need := range o.chain.needs() {
		u.add(base, need, own)
	}
}
