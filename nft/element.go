package nft

import (
	"net/netip"
	"unique"

	"kube-vmap/model"
)

// Key is the key of an element, of any kind of set: what a packet must carry.
// Fields that the set's layout does not have are zero.
type Key struct {
	Addr     netip.Addr
	Pick     uint32
	Port     uint16
	Protocol model.Protocol
	// Bits is the length of the prefix Addr/Bits where keys are intervals.
	Bits uint8
	// Source is who may come, where the key ends in that; a handle, since few
	// keys have it.
	Source unique.Handle[netip.Prefix]
}

// source is the prefix of Source, invalid if there is none.
func (k *Key) source() netip.Prefix {
	if k.Source == (unique.Handle[netip.Prefix]{}) {
		return netip.Prefix{}
	}
	return k.Source.Value()
}

// prefix is the key of an interval set.
func (k *Key) prefix() netip.Prefix { return netip.PrefixFrom(k.Addr, int(k.Bits)) }

// Value is what an element carries: a verdict, an endpoint or one half of it, or
// nothing.
type Value struct {
	Verdict  Verdict
	Chain    ChainID // for Goto
	Endpoint netip.AddrPort
}

// address and port are the halves of an endpoint's value.
func (v Value) address() Value {
	return Value{Endpoint: netip.AddrPortFrom(v.Endpoint.Addr(), 0)}
}

func (v Value) port() Value {
	return Value{Endpoint: netip.AddrPortFrom(netip.Addr{}, v.Endpoint.Port())}
}

// goesTo is the value of an element that leads to a chain.
func goesTo(id ChainID) Value { return Value{Verdict: VerdictGoto, Chain: id} }

// Verdict is what a verdict map's element does with a packet.
type Verdict uint8

// The verdicts in use.
const (
	VerdictNone Verdict = iota // not an element of a verdict map
	VerdictGoto
	VerdictDrop
)

// Element is one element of a set or map. Comment names the Service it serves;
// it stands in the kernel only where the set's layout has comments, and in
// errors always.
type Element struct {
	Key     Key
	Value   Value
	Comment string
}

// compareKeys orders keys as nft lists them, so that texts are stable.
func compareKeys(a, b Key) int {
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
	return comparePrefixes(a.source(), b.source())
}

func sameKey(a, b Element) bool { return a.Key == b.Key }
