package xt

import (
	"encoding/binary"
	"net/netip"
	"reflect"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// build returns a structure of a length with numbers in the byte order of the machine: one of
// 1, 2 or 4 bytes at each offset.
func build(n int, at map[int]any) []byte {
	b := make([]byte, n)
	for i, v := range at {
		switch v := v.(type) {
		case int:
			b[i] = byte(v)
		case uint16:
			binary.NativeEndian.PutUint16(b[i:], v)
		case uint32:
			binary.NativeEndian.PutUint32(b[i:], v)
		case netip.Addr:
			copy(b[i:], v.AsSlice())
		case []byte:
			copy(b[i:], v)
		}
	}
	return b
}

func TestDecodeStructures(t *testing.T) {
	a4, a6 := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("fd00::3")
	for _, tc := range []struct {
		name   string
		number uint32
		v6     bool
		data   []byte
		want   any
	}{
		{"comment", 0, false, build(256, map[int]any{0: []byte("web")}), Comment{"web"}},
		{"mark", 1, false, build(12, map[int]any{0: uint32(1), 4: uint32(3), 8: 1}), Mark{Value: 1, Mask: 3, Invert: true}},
		{"connmark", 1, false, build(12, map[int]any{0: uint32(1), 4: uint32(3)}), Mark{Value: 1, Mask: 3, Connection: true}},
		{
			"udp", 0, false, build(10, map[int]any{2: uint16(9), 4: uint16(53), 6: uint16(54), 8: 2}),
			Ports{Source: PortRange{0, 9}, Destination: PortRange{53, 54}, InvertDestination: true},
		},
		{"state", 0, false, build(4, map[int]any{0: uint32(1<<1 | 1<<6)}), Conntrack{Flags: ConntrackState, State: StateEstablished | StateUntracked}},
		{"statistic", 0, false, build(24, map[int]any{4: uint32(1 << 30)}), Statistic{Probability: 0.5}},
		{"statistic", 0, false, build(24, map[int]any{0: uint16(1), 2: uint16(1), 4: uint32(3)}), Statistic{Probability: 0.25, InTurn: true, Invert: true}},
		{"statistic", 0, false, build(24, map[int]any{0: uint16(2)}), nil},
		{"statistic", 0, false, build(24, map[int]any{4: ^uint32(0)}), nil},
		{"multiport", 1, false, build(48, map[int]any{0: 1, 1: 16}), nil},
		{"recent", 1, true, build(232, map[int]any{8: 2, 10: []byte("SSH")}), Recent{Name: "SSH", Set: true, Mask: netip.IPv6Unspecified()}},
		{"u32", 0, false, make([]byte, 2000), nil},
		{"mark", 9, false, make([]byte, 12), nil},
		{"MARK", 2, false, build(8, map[int]any{0: uint32(1), 4: uint32(3)}), SetMark{1, 3}},
		{
			"CONNMARK", 2, false, build(16, map[int]any{0: uint32(1), 4: uint32(2), 8: uint32(3), 12: 1, 13: 4, 14: 2}),
			ConnMark{Mode: ConnMarkRestore, Value: 1, Mask: 2, PacketMask: 3, ShiftRight: 4},
		},
		{"CONNMARK", 1, false, build(16, map[int]any{12: 3}), nil},
		{"CT", 2, false, build(64, map[int]any{0: uint16(1)}), &expr.Notrack{}},
		{"CT", 2, false, build(64, map[int]any{2: uint16(7)}), Zone{}},
		{"CT", 2, false, make([]byte, 64), NoEffect{"CT"}},
		{"REJECT", 0, false, build(4, map[int]any{0: uint32(7)}), &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}},
		{"REJECT", 0, true, build(4, map[int]any{0: uint32(4)}), &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 4}},
		{"REJECT", 0, false, build(4, map[int]any{0: uint32(4)}), nil},
		{
			"DNAT", 0, false, build(20, map[int]any{4: uint32(3), 8: a4, 12: a4, 16: []byte{0, 80, 0, 80}}),
			NAT{Addrs: AddrRange{a4, a4}, Ports: PortRange{80, 80}},
		},
		{"DNAT", 0, true, build(40, nil), nil},
		{"DNAT", 2, true, build(44, map[int]any{0: uint32(1), 4: a6, 20: a6, 36: []byte{0, 80, 0, 80}}), NAT{Addrs: AddrRange{a6, a6}}},
		{"DNAT", 2, false, build(44, map[int]any{0: uint32(32), 40: []byte{0, 80}}), NAT{Shifted: true, Base: 80}},
		{"NETMAP", 0, false, build(20, map[int]any{4: uint32(1), 8: a4, 12: a4}), Netmap{AddrRange{a4, a4}}},
		{"NETMAP", 0, true, build(40, map[int]any{0: uint32(1), 4: a6, 20: a6}), Netmap{AddrRange{a6, a6}}},
		{"NFQUEUE", 3, false, build(6, map[int]any{0: uint16(4), 2: uint16(3), 4: uint16(1)}), Queue{From: 4, To: 6, Bypass: true}},
		{"set", 0, false, build(32, map[int]any{0: uint16(9), 28: 2, 29: 1 | 2}), InSet{SetRef: SetRef{9, 2, 2}, Invert: true}},
		{"set", 2, false, build(4, map[int]any{0: uint16(9), 2: 1, 3: 128}), InSet{SetRef: SetRef{9, 1, 0}, ReturnNoMatch: true}},
		{"set", 4, false, build(48, map[int]any{0: uint16(9), 2: 1, 3: 2, 16: 1}), InSet{SetRef: SetRef{9, 1, 2}, Counters: true}},
		{"SET", 3, false, build(24, map[int]any{0: uint16(9), 2: 1, 4: ^uint16(0), 8: ^uint16(0)}), ChangeSet{Add: &SetRef{9, 1, 0}}},
		{"SET", 3, false, build(24, map[int]any{0: ^uint16(0), 4: ^uint16(0), 8: uint16(9), 12: uint32(256)}), nil},
		{"owner", 1, false, build(20, map[int]any{4: uint32(5), 8: uint32(1), 16: 3}), Owner{Match: 3, HasRoot: true}},
		{"connlabel", 0, false, build(4, map[int]any{0: uint16(7), 2: uint16(2)}), ConnLabel{Bit: 7, Set: true}},
		{"socket", 3, false, build(1, map[int]any{0: 3}), Socket{Transparent: true, NoWildcard: true}},
		{"REDIRECT", 0, true, build(40, map[int]any{0: uint32(2), 36: []byte{58, 153, 58, 153}}), Redirect{Ports: PortRange{15001, 15001}}},
		{"REDIRECT", 0, true, build(20, nil), nil},
		{"TPROXY", 1, true, build(32, map[int]any{0: uint32(1), 4: uint32(3), 8: a6, 24: []byte{0, 80}}), TProxy{Value: 3, Mask: 1, To: netip.AddrPortFrom(a6, 80)}},
	} {
		got, ok := DecodeMatch(tc.name, tc.number, tc.v6, tc.data)
		if !ok {
			got, ok = DecodeTarget(tc.name, tc.number, tc.v6, tc.data)
		}
		if ok != (tc.want != nil) || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s, revision %d: %+v, want %+v", tc.name, tc.number, got, tc.want)
		}
	}
}

// FuzzDecode proves that no structure makes a decoder panic, and that a structure that is cut
// is unknown.
func FuzzDecode(f *testing.F) {
	for _, formats := range []map[revision]format{matches, targets} {
		for r, format := range formats {
			f.Add(r.name, r.number, true, make([]byte, format.size))
			f.Add(r.name, r.number, false, build(format.size+8, map[int]any{0: 255, format.size: 255}))
		}
	}
	f.Fuzz(func(t *testing.T, name string, number uint32, v6 bool, data []byte) {
		DecodeMatch(name, number, v6, data)
		DecodeTarget(name, number, v6, data)
		for _, formats := range []map[revision]format{matches, targets} {
			if format, ok := formats[revision{name, number}]; ok && len(data) >= format.size && format.size > 0 {
				if e, ok := decode(formats, name, number, v6, data[:format.size-1]); ok {
					t.Errorf("%s, revision %d, of %d bytes: %+v", name, number, format.size-1, e)
				}
			}
		}
	})
}
