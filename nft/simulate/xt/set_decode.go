package xt

// Flags of struct xt_set_info, and of commands (include/uapi/linux/netfilter/ipset/ip_set.h).
const (
	setInvert        = 1 << 0
	setReturnNoMatch = 1 << 7
	setMapMark       = 1 << 8
	// noSet is the index of no set (IPSET_INVALID_ID).
	noSet = 65535
)

// setRef decodes struct xt_set_info.
func (b info) setRef(at int) SetRef {
	return SetRef{Index: b.u16(at), Dimensions: b.u8(at + 2), FromSource: b.u8(at+3) &^ (setInvert | setReturnNoMatch)}
}

// decodeSet0 decodes struct xt_set_info_match_v0, which the kernel has brought to the form of
// later ones.
func decodeSet0(b info, _ bool) any {
	s := decodeSet(b[26:], false).(InSet)
	s.Index = b.u16(0)
	return s
}

// decodeSet decodes struct xt_set_info_match_v1.
func decodeSet(b info, _ bool) any {
	return InSet{SetRef: b.setRef(0), Invert: b.u8(3)&setInvert != 0, ReturnNoMatch: b.u8(3)&setReturnNoMatch != 0}
}

// decodeSet3 decodes struct xt_set_info_match_v3.
func decodeSet3(b info, _ bool) any { return decodeSetCounters(b, 8, 24) }

// decodeSet4 decodes struct xt_set_info_match_v4.
func decodeSet4(b info, _ bool) any { return decodeSetCounters(b, 16, 32) }

// decodeSetCounters decodes a match that may compare counters of elements, by the offsets of
// how it compares packets and bytes.
func decodeSetCounters(b info, packets, bytes int) any {
	s := decodeSet(b, false).(InSet)
	s.ReturnNoMatch = b.u32(40)&setReturnNoMatch != 0
	s.Counters = b.u8(packets) != 0 || b.u8(bytes) != 0
	return s
}

// decodeSetTarget decodes struct xt_set_info_target_v1 and v2.
func decodeSetTarget(b info, _ bool) any {
	return ChangeSet{Add: setOf(b.setRef(0)), Delete: setOf(b.setRef(4))}
}

// decodeSetTarget3 decodes struct xt_set_info_target_v3, which may also set the mark to that of
// an element.
func decodeSetTarget3(b info, _ bool) any {
	if b.u16(8) != noSet && b.u32(12)&setMapMark != 0 {
		return nil
	}
	return decodeSetTarget(b, false)
}

// setOf returns a set; nil if the target has none.
func setOf(s SetRef) *SetRef {
	if s.Index == noSet {
		return nil
	}
	return &s
}
