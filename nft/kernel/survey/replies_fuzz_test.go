package survey

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// setMark returns the expressions of "meta mark set meta mark & mask ^ xor".
func setMark(mask, xor uint32) []byte {
	key := netlink.Attribute{Type: unix.NFTA_META_KEY, Data: binary.BigEndian.AppendUint32(nil, unix.NFT_META_MARK)}
	value := func(kind uint16, n uint32) netlink.Attribute {
		data := []netlink.Attribute{{Type: unix.NFTA_DATA_VALUE, Data: binary.NativeEndian.AppendUint32(nil, n)}}
		return netlink.Attribute{Type: kind | unix.NLA_F_NESTED, Data: nltest.MustMarshalAttributes(data)}
	}
	var list []netlink.Attribute
	for _, e := range []struct {
		name string
		data []netlink.Attribute
	}{
		{"meta", []netlink.Attribute{key, {Type: unix.NFTA_META_DREG, Data: []byte{0, 0, 0, 1}}}},
		{"bitwise", []netlink.Attribute{value(unix.NFTA_BITWISE_MASK, mask), value(unix.NFTA_BITWISE_XOR, xor)}},
		{"meta", []netlink.Attribute{key, {Type: unix.NFTA_META_SREG, Data: []byte{0, 0, 0, 1}}}},
	} {
		list = append(list, netlink.Attribute{Type: unix.NFTA_LIST_ELEM | unix.NLA_F_NESTED, Data: nltest.MustMarshalAttributes([]netlink.Attribute{
			{Type: unix.NFTA_EXPR_NAME, Data: append([]byte(e.name), 0)},
			{Type: unix.NFTA_EXPR_DATA | unix.NLA_F_NESTED, Data: nltest.MustMarshalAttributes(e.data)},
		})})
	}
	return nltest.MustMarshalAttributes(list)
}

func TestMarkHasTheBitsThatARuleMayChange(t *testing.T) {
	for _, tc := range []struct{ mask, xor, want uint32 }{
		{0xffffffff, 0, 0},
		{0xffffbfff, 0x4000, 0x4000}, // |= 0x4000
		{0xffffff0f, 0x80, 0xf0},
		{0, 0x1, 0xffffffff},
	} {
		var d attr.Decoder
		if r := decodeRule(&d, setMark(tc.mask, tc.xor)); r.Mark != tc.want || d.Err() != nil {
			t.Errorf("& %#x ^ %#x changes %#x, want %#x; %v", tc.mask, tc.xor, r.Mark, tc.want, d.Err())
		}
	}
}

// FuzzReplies decodes any bytes as a table, a chain and a rule.
func FuzzReplies(f *testing.F) {
	f.Add(setMark(0, 1))
	f.Add(legacyEntry(legacyFamilies[0].target, "ERROR", []byte("MINE")...))
	f.Add(nltest.MustMarshalAttributes([]netlink.Attribute{
		{Type: tableUserdata, Data: []byte{attr.CommentTag, 2, 'a', 0}},
		{Type: unix.NFTA_CHAIN_NAME, Data: []byte("c\x00")},
	}))
	f.Fuzz(func(_ *testing.T, b []byte) {
		var d attr.Decoder
		_ = decodeTable(&d, b)
		_, _ = decodeChain(&d, unix.NFPROTO_NETDEV, b)
		_ = decodeRule(&d, b)
		for _, l := range legacyFamilies {
			_ = (&Table{}).decodeLegacy(b, l.target)
		}
	})
}

// legacyEntry returns an entry of a table of iptables-legacy with a target.
func legacyEntry(targetOffset int, target string, data ...byte) []byte {
	const header = 4 // of the offsets, after the conditions
	b := make([]byte, targetOffset+header, 256)
	binary.NativeEndian.PutUint16(b[targetOffset:], uint16(len(b)))
	b = append(b, make([]byte, 32)...)
	copy(b[targetOffset+header+2:], target)
	b = append(b, append(data, 0, 0, 0, 0)...)
	binary.NativeEndian.PutUint16(b[targetOffset+2:], uint16(len(b)))
	return b
}

func TestLegacyChainsAreNamed(t *testing.T) {
	verdict := func(v int32) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(v)) }
	for _, l := range legacyFamilies {
		accept, end := legacyEntry(l.target, "", verdict(-2)...), legacyEntry(l.target, "ERROR", []byte("ERROR")...)
		mine, back := legacyEntry(l.target, "ERROR", []byte("MINE")...), legacyEntry(l.target, "", verdict(-5)...)
		for _, tc := range []struct {
			entries [][]byte
			chains  int
			inert   bool
		}{
			{[][]byte{accept, accept, end}, 0, true},
			{[][]byte{accept, mine, back, end}, 1, true},
			{[][]byte{legacyEntry(l.target, "", verdict(-1)...), end}, 0, false},        // policy drop
			{[][]byte{legacyEntry(l.target, "", verdict(152)...), mine, end}, 1, false}, // a jump
			{[][]byte{accept, mine, legacyEntry(l.target, "DNAT"), back, end}, 1, false},
		} {
			var got Table
			err := got.decodeLegacy(slices.Concat(tc.entries...), l.target)
			if err != nil || len(got.Chains) != tc.chains || tc.chains == 1 && got.Chains[0].Name != "MINE" || got.Inert != tc.inert {
				t.Errorf("%+v: %+v, %v", tc, got, err)
			}
		}
		if err := (&Table{}).decodeLegacy(accept[:len(accept)-1], l.target); err == nil {
			t.Error("no error for an entry that is cut")
		}
	}
}
