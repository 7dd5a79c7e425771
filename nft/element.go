package nft

import (
	"net/netip"

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
}

// prefix is the key of an interval set.
func (k *Key) prefix() netip.Prefix { return netip.PrefixFrom(k.Addr, int(k.Bits)) }

// Value is what an element carries: a verdict, an endpoint, or nothing.
type Value struct {
	Verdict  Verdict
	Chain    ChainID // for Goto
	Endpoint netip.AddrPort
}

// Verdict is what a verdict map's element does with a packet.
type Verdict uint8

// The verdicts in use.
const (
	NoVerdict Verdict = iota // not an element of a verdict map
	Goto
	Drop
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
	return 0
}

func sameKey(a, b Element) bool { return a.Key == b.Key }
