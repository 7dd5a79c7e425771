package simulate

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sort"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
)

// minIndexed is the length from which a chain has an index: kube-proxy's iptables mode has a chain
// with a rule for each Service, and each walk would be compared with all of them.
const minIndexed = 64

// A ruleList is the rules of a chain, without those that have no effect if the chain is
// another program's.
type ruleList struct {
	rules []Rule
	index *destinationIndex // nil for short chains
	// sources are what the source of a packet must be, by the number of the rule; the zero value
	// for any. They are nil for short chains.
	sources []netip.Prefix
}

// A destinationIndex has the numbers of rules by the destination that they require: an
// address, or a port, or neither.
type destinationIndex struct {
	byAddr map[netip.Addr][]int
	byPort map[uint16][]int
	ports  []int // all of byPort
	others []int
}

func newRuleList(rules []Rule, f model.Family) *ruleList {
	l := &ruleList{rules: slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return !hasEffect(r) })}
	if len(rules) >= minIndexed {
		l.index, l.sources = newDestinationIndex(l.rules, f)
	}
	return l
}

func newDestinationIndex(rules []Rule, f model.Family) (*destinationIndex, []netip.Prefix) {
	x := &destinationIndex{byAddr: map[netip.Addr][]int{}, byPort: map[uint16][]int{}}
	sources := make([]netip.Prefix, len(rules))
	for i, r := range rules {
		d := requiredDestination(r, f)
		sources[i] = d.source
		switch {
		case d.Addr.IsValid():
			x.byAddr[d.Addr] = append(x.byAddr[d.Addr], i)
		case d.Port != 0:
			x.byPort[d.Port] = append(x.byPort[d.Port], i)
			x.ports = append(x.ports, i)
		default:
			x.others = append(x.others, i)
		}
	}
	return x, sources
}

// next returns the number of the first rule from a number on that a packet may match.
func (l *ruleList) next(from int, source netip.Addr, to netip.AddrPort) int {
	for from = l.nextTo(from, to); from < len(l.sources); from = l.nextTo(from+1, to) {
		if p := l.sources[from]; !p.IsValid() || p.Contains(source) {
			break
		}
	}
	return from
}

// nextTo is next for all sources.
func (l *ruleList) nextTo(from int, to netip.AddrPort) int {
	if l.index == nil {
		return from
	}
	first, byPort := len(l.rules), l.index.byPort[to.Port()]
	if to.Port() == 0 {
		byPort = l.index.ports // it is unknown
	}
	for _, list := range [...][]int{l.index.byAddr[to.Addr()], byPort, l.index.others} {
		if i := sort.SearchInts(list, from); i < len(list) {
			first = min(first, list[i])
		}
	}
	return first
}

// A destination is what a rule requires of the destination; zero values mean anything.
type destination struct {
	Addr   netip.Addr
	Port   uint16
	source netip.Prefix
}

// requiredDestination returns the destination without which a rule does not match and has no
// effect. It looks only for comparisons with one value.
func requiredDestination(r Rule, f model.Family) (d destination) {
	for i, e := range r.Expressions {
		var compared []byte
		if i+1 < len(r.Expressions) {
			if c, ok := r.Expressions[i+1].(*expr.Cmp); ok && c.Op == expr.CmpOpEq {
				compared = c.Data
			}
		}
		switch e := e.(type) {
		case *expr.Payload:
			d.addPayload(e, compared, f)
			d.addSource(e, r.Expressions[i+1:], f)
		case Extension:
			if e.requires == nil {
				break
			}
			if r := e.requires(e.info); r.from == r.to {
				d.Port = r.from
			}
		}
		if _, acts := effects(e); acts || isPick(e) {
			return d
		}
	}
	return d
}

func (d *destination) addPayload(e *expr.Payload, compared []byte, f model.Family) {
	at := addressFields[f]
	switch {
	case e.OperationType != expr.PayloadLoad || int(e.Len) != len(compared):
	case e.Base == expr.PayloadBaseNetworkHeader && int(e.Offset) == at.destination && int(e.Len) == at.length:
		d.Addr, _ = netip.AddrFromSlice(compared)
	case e.Base == expr.PayloadBaseTransportHeader && e.Offset == destinationPort && e.Len == 2:
		d.Port = binary.BigEndian.Uint16(compared)
	}
}

// addSource adds the source that the expressions behind a load compare, of which a mask may keep a
// part.
func (d *destination) addSource(e *expr.Payload, next []any, f model.Family) {
	at := addressFields[f]
	if e.OperationType != expr.PayloadLoad || e.Base != expr.PayloadBaseNetworkHeader || int(e.Offset) != at.source ||
		int(e.Len) > at.length || d.source.IsValid() {
		return
	}
	mask := slices.Repeat([]byte{0xff}, int(e.Len))
	if b, is := first[*expr.Bitwise](next); is && len(b.Mask) == len(mask) && isZero(b.Xor) {
		mask, next = b.Mask, next[1:]
	}
	if c, is := first[*expr.Cmp](next); is && c.Op == expr.CmpOpEq && len(c.Data) == len(mask) {
		rest := make([]byte, at.length-len(mask))
		if p, ok := prefixOf(slices.Concat(c.Data, rest), slices.Concat(mask, rest)); ok {
			d.source = p
		}
	}
}

func first[E any](list []any) (e E, is bool) {
	if len(list) > 0 {
		e, is = list[0].(E)
	}
	return e, is
}
