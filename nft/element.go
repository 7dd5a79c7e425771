package nft

import (
	"net/netip"
	"unicode/utf8"
	"unique"

	"kube-vmap/model"
)

// A Key is the key of an element, of any kind of set. Fields that the set's layout lacks
// are zero.
type Key struct {
	Addr     netip.Addr
	Pick     uint32 // of FieldPick, or of FieldNumber
	Port     uint16
	Protocol model.Protocol
	// Bits is the length of the prefix Addr/Bits, in sets of intervals.
	Bits uint8
	// Source is the client's prefix, if the key has [FieldClient]; in SetEndpointIPs it is
	// an endpoint's address. It is interned: few keys have one.
	Source unique.Handle[netip.Prefix]
}

// SourcePrefix returns the prefix of Source, invalid if there is none.
func (k *Key) SourcePrefix() netip.Prefix {
	if k.Source == (unique.Handle[netip.Prefix]{}) {
		return netip.Prefix{}
	}
	return k.Source.Value()
}

// Prefix returns the key of an interval set.
func (k *Key) Prefix() netip.Prefix { return netip.PrefixFrom(k.Addr, int(k.Bits)) }

// A Value is what an element maps its key to: a verdict, an endpoint, one half of it or its
// number, or nothing.
type Value struct {
	Verdict  Verdict
	Chain    ChainID // for VerdictGoto
	Number   uint32
	Endpoint netip.AddrPort
}

// refers reports whether an element with the value jumps to a chain created on demand.
func (v *Value) refers() bool { return v.Verdict == VerdictGoto && v.Chain.Kind >= baseChains }

// goesTo is the value of an element that jumps to the chain.
func goesTo(id ChainID) Value { return Value{Verdict: VerdictGoto, Chain: id} }

// A Verdict is what an element of a verdict map does with a packet.
type Verdict uint8

// The verdicts in use.
const (
	VerdictNone Verdict = iota // not an element of a verdict map
	VerdictGoto
	VerdictDrop
)

// An Element is one element of a set or map.
type Element struct {
	Key   Key
	Value Value
	// Service is the Service port that the element serves. If the kernel refuses the
	// element, that port is quarantined. It is nil if the element serves none, and in
	// elements that were read from the kernel, which knows comments only.
	Service *model.ServicePortName
	// Comment is the comment of an element that was read from the kernel. A written
	// element gets the name of its Service as its comment, see [Element.AppendComment].
	Comment string
}

// maxCommentLen is how long a comment may be: nft's 128 bytes include a final zero.
const (
	maxCommentLen  = 127
	commentTooLong = "..."
)

// AppendComment appends the comment that the kernel holds for the element, if the layout of
// its set has comments: the name of the Service port, cut to the kernel's limit. Comments
// are for people who list the rule set, and show when a frontend moves from one Service to
// another.
func (e *Element) AppendComment(b []byte) []byte {
	at := len(b)
	if s := e.Service; s != nil {
		b = append(append(append(b, s.Namespace...), '/'), s.Name...)
		if s.Port != "" {
			b = append(append(b, ':'), s.Port...)
		}
	} else {
		b = append(b, e.Comment...)
	}
	if len(b)-at <= maxCommentLen {
		return b
	}
	// Names of Services consist of letters, digits, hyphens and dots, but a cut must not
	// leave half a character whatever the comment.
	end := at + maxCommentLen - len(commentTooLong)
	for end > at && !utf8.RuneStart(b[end]) {
		end--
	}
	return append(b[:end], commentTooLong...)
}

// sameComment reports whether the kernel holds the same comment for both elements.
func sameComment(a, b *Element) bool {
	var bufs [2][192]byte
	return string(a.AppendComment(bufs[0][:0])) == string(b.AppendComment(bufs[1][:0]))
}

// ServiceName returns the name of the Service port that the element serves, if any, for
// people; the comment if the element was read from the kernel.
func (e *Element) ServiceName() string {
	if e.Service != nil {
		return e.Service.String()
	}
	return e.Comment
}

// CompareKeys orders keys as nft lists them, for stable texts.
func CompareKeys(a, b Key) int {
	if c := a.Addr.Compare(b.Addr); c != 0 {
		return c
	}
	for _, pair := range [...][2]uint32{
		{uint32(a.Protocol), uint32(b.Protocol)},
		{uint32(a.Port), uint32(b.Port)},
		{a.Pick, b.Pick},
		{uint32(a.Bits), uint32(b.Bits)},
	} {
		switch {
		case pair[0] < pair[1]:
			return -1
		case pair[0] > pair[1]:
			return 1
		}
	}
	if a.Source == b.Source {
		return 0
	}
	return comparePrefixes(a.SourcePrefix(), b.SourcePrefix())
}

func sameKey(a, b Element) bool { return a.Key == b.Key }

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
