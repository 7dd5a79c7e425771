package nft

// AddEndpoints adds the endpoints of pools to a set that the same batch adds. It is
// [AddElements] for a first load, in which nearly all elements are endpoints. Elements are
// made one by one when they are encoded: all of them in memory would cost the garbage
// collector as much time as everything else.
type AddEndpoints struct {
	Set   SetID
	slots []slot
}

// A slot is the place of one endpoint of a pool; in SetStickyEndpoints, which has each
// endpoint once, its place in the pool's list.
type slot struct {
	*frontendState
	k uint32
}

// element is the slot's element in a set.
func (s slot) element(id SetID) Element {
	r := s.slotList(id.Local)
	if id.Kind == SetStickyEndpoints {
		return r.numbered(int(s.k)).Element
	}
	return r.at(int(s.k)).Element
}

// Len returns the number of elements that the op adds.
func (o AddEndpoints) Len() int { return len(o.slots) }

// At returns element number i.
func (o AddEndpoints) At(i int) Element { return o.slots[i].element(o.Set) }

// Elements returns the elements that the op adds, sorted by key.
func (o AddEndpoints) Elements() []Element {
	list := make([]Element, len(o.slots))
	for i, s := range o.slots {
		list[i] = s.element(o.Set)
	}
	return sorted(list)
}

func (o AddEndpoints) String() string { return AddElements{o.Set, o.Elements()}.String() }

// AddedElements returns the set to which an op adds elements, and the elements. It reports
// false if the op adds none.
func AddedElements(op Op) (id SetID, list []Element, adds bool) {
	switch op := op.(type) {
	case AddElements:
		return op.Set, op.Elements, true
	case AddEndpoints:
		return op.Set, op.Elements(), true
	}
	return SetID{}, nil, false
}

// contents are the elements of all sets of a state. Those of endpoints are slots, of which no
// elements were made yet. Both are sorted by key, except those of SetStickyEndpoints, and
// each set is in one of them.
type contents struct {
	elements map[SetID][]Element
	slots    map[SetID][]slot
}

// of returns the elements of a set.
func (c *contents) of(id SetID) []Element {
	if slots := c.slots[id]; slots != nil {
		return AddEndpoints{id, slots}.Elements()
	}
	return c.elements[id]
}

// all returns the elements of all sets.
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

// fill adds the elements of a new set.
func (e *edit) fill(id SetID, c *contents) {
	if slots := c.slots[id]; slots != nil {
		e.of(id).endpoints = slots
		return
	}
	e.of(id).add = c.elements[id]
}
