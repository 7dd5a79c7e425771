package nft

import "net/netip"

// AddFrontends adds the elements of frontends to a set that the same batch adds. It is
// [AddElements] for a first load, where nearly all elements belong to frontends. Elements
// are made one by one when they are encoded: all of them in memory would take more time
// than everything else.
type AddFrontends struct {
	Set      SetID
	refs     *refList
	from, to int // in refs
}

// An elementRef is an element of a frontend that is yet to be made. In a set of endpoints,
// k is its slot; in SetStickyEndpoints, which has each endpoint once, k is its place in
// the pool's list. In other sets a frontend has one element, and k is zero.
type elementRef struct {
	*frontendState
	k uint32
	// to is the endpoint: finding it in its list again takes more time than making the rest
	// of the element.
	to *netip.AddrPort
}

// make makes the element for a set, in place of none or of one of the same set.
func (r elementRef) make(id SetID, e *Element) {
	e.Key.Addr = r.Match.Addr
	if (id.Kind == SetRefusals || id.Kind == SetRetried) && r.nodePort() {
		e.Key.Addr = id.family().zero()
	}
	if id.Kind.ofAddresses() {
		return
	}
	e.Key.Protocol, e.Key.Port, e.Service = r.Match.Protocol, r.Match.Port, &r.Service
	switch id.Kind {
	case SetEndpoints:
		e.Value.Endpoint = *r.to
	case SetEndpointsMany:
		e.Key.Pick, e.Value.Endpoint = r.k, *r.to
	case SetStickyNumbers:
		l := r.slotList(id.Local)
		e.Key.Pick, e.Value.Number = r.k, l.number(int(r.k))
	case SetStickyEndpoints:
		e.Key.Pick, e.Value.Endpoint = r.numbers.list(id.Local)[r.k], *r.to
	default:
		e.Value = r.ownValue(id.Kind)
	}
}

// element is element k that the frontend has in a set, of an endpoint if that has some.
func (p *frontendState) element(id SetID, k int, to *netip.AddrPort) setElement {
	out := setElement{set: id}
	elementRef{p, uint32(k), to}.make(id, &out.Element)
	return out
}

// A refList is a list of references, in pieces: a single slice would be copied each time
// it grows, and leave capacity unused.
type refList [][]elementRef

// refsPerPiece is the length of all pieces but the last.
const refsPerPiece = 1024

// add appends a reference. The first piece begins small, since most lists are short.
func (l *refList) add(r elementRef) {
	last := len(*l) - 1
	switch {
	case last < 0:
		*l = append(*l, nil)
		last++
	case len((*l)[last]) == refsPerPiece:
		*l = append(*l, make([]elementRef, 0, refsPerPiece))
		last++
	}
	(*l)[last] = append((*l)[last], r)
}

func (l refList) len() int {
	last := len(l) - 1
	if last < 0 {
		return 0
	}
	return last*refsPerPiece + len(l[last])
}

func addFrontends(id SetID, refs *refList) AddFrontends { return AddFrontends{id, refs, 0, refs.len()} }

// Len returns the number of elements that the op adds.
func (o AddFrontends) Len() int { return o.to - o.from }

// divide divides the op after n elements.
func (o AddFrontends) divide(n int) (first, rest AddFrontends) {
	at := o.from + n
	return AddFrontends{o.Set, o.refs, o.from, at}, AddFrontends{o.Set, o.refs, at, o.to}
}

// Make makes element number i, in place of none or of another one of the op.
func (o AddFrontends) Make(i int, e *Element) {
	i += o.from
	(*o.refs)[i/refsPerPiece][i%refsPerPiece].make(o.Set, e)
}

// At returns element number i.
func (o AddFrontends) At(i int) (e Element) {
	o.Make(i, &e)
	return e
}

// Elements returns the elements that the op adds, sorted by key.
func (o AddFrontends) Elements() []Element {
	list := make([]Element, o.Len())
	for i := range list {
		o.Make(i, &list[i])
	}
	return SortByKey(list)
}

func (o AddFrontends) String() string { return AddElements{o.Set, o.Elements()}.String() }

// AddsTo returns the set that an op adds elements to, and whether it adds any.
func AddsTo(op Op) (id SetID, adds bool) {
	switch op := op.(type) {
	case AddElements:
		return op.Set, true
	case AddFrontends:
		return op.Set, true
	}
	return SetID{}, false
}

// AddedElements returns the set that an op adds elements to, and the elements. It reports
// false if the op adds none.
func AddedElements(op Op) (id SetID, list []Element, adds bool) {
	id, adds = AddsTo(op)
	switch op := op.(type) {
	case AddElements:
		list = op.Elements
	case AddFrontends:
		list = op.Elements()
	}
	return id, list, adds
}

// contents are the elements of all sets of a state; elements of frontends are references,
// not yet made. Both are sorted by key, except in SetStickyEndpoints, and each set is in
// one of them.
type contents struct {
	elements map[SetID][]Element
	refs     map[SetID]*refList
}

func (c *contents) of(id SetID) []Element {
	if refs := c.refs[id]; refs != nil {
		return addFrontends(id, refs).Elements()
	}
	return c.elements[id]
}

func (c *contents) all() map[SetID][]Element {
	for id := range c.refs {
		c.elements[id] = c.of(id)
	}
	c.refs = nil
	return c.elements
}

// count notes how many elements each set has.
func (c *contents) count(counts map[SetID]int) {
	for id, list := range c.elements {
		counts[id] = len(list)
	}
	for id, refs := range c.refs {
		counts[id] = refs.len()
	}
}

func (e *edit) fill(id SetID, c *contents) {
	if refs := c.refs[id]; refs != nil {
		e.of(id).refs = refs
		return
	}
	e.of(id).add = c.elements[id]
}
