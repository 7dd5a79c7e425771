package nft

// AddEndpoints adds the endpoints of pools to a set that is made in the same batch:
// [AddElements] for a first load, in which nearly all elements are such. They are
// made when they are written, one after the other, for so many at once would have the
// garbage collector do as much work as everything else.
type AddEndpoints struct {
	Set   SetID
	slots []slot
}

// slot is where one endpoint of a pool is.
type slot struct {
	*frontendState
	k uint32
}

// element is what the set holds of the slot.
func (s slot) element(local bool) Element {
	r := s.slotList(local)
	return r.at(int(s.k)).Element
}

// Len is the number of elements that the op adds.
func (o AddEndpoints) Len() int { return len(o.slots) }

// At is the element of number i.
func (o AddEndpoints) At(i int) Element { return o.slots[i].element(o.Set.Local) }

// Elements are the elements that the op adds.
func (o AddEndpoints) Elements() []Element {
	list := make([]Element, len(o.slots))
	for i, s := range o.slots {
		list[i] = s.element(o.Set.Local)
	}
	return list
}

func (o AddEndpoints) String() string { return AddElements{o.Set, o.Elements()}.String() }

// AddedElements is the set that an op adds elements to, and those elements; false if it adds
// none.
func AddedElements(op Op) (id SetID, list []Element, adds bool) {
	switch op := op.(type) {
	case AddElements:
		return op.Set, op.Elements, true
	case AddEndpoints:
		return op.Set, op.Elements(), true
	}
	return SetID{}, nil, false
}

// contents are the elements of the sets of a state, those of endpoints apart, which
// are not made yet. Both are sorted by key, and no set is in both.
type contents struct {
	elements map[SetID][]Element
	slots    map[SetID][]slot
}

// of are the elements of a set.
func (c *contents) of(id SetID) []Element {
	if slots := c.slots[id]; slots != nil {
		return AddEndpoints{id, slots}.Elements()
	}
	return c.elements[id]
}

// all are the elements of all sets.
func (c *contents) all() map[SetID][]Element {
	for id := range c.slots {
		c.elements[id] = c.of(id)
	}
	c.slots = nil
	return c.elements
}

// count notes how many elements each set has.
func (c *contents) count(counts map[SetID]int) {
	for id, list := range c.elements {
		counts[id] = len(list)
	}
	for id, slots := range c.slots {
		counts[id] = len(slots)
	}
}

// fill has a set that is new filled.
func (e *edit) fill(id SetID, c *contents) {
	if slots := c.slots[id]; slots != nil {
		e.of(id).endpoints = slots
		return
	}
	e.of(id).add = c.elements[id]
}
