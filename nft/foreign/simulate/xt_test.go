package simulate

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate/path"
)

// fields are the fields of a structure by their offset, numbers in the byte order of the machine.
type fields map[int]any

func (f fields) build(n int) []byte {
	b := make([]byte, n)
	for i, v := range f {
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

// extensionWith returns a match or target of iptables, unknown or not.
func extensionWith(name string, revision uint32, size int, f fields) any {
	x, ok := extensionOf(name, info{data: f.build(size), revision: revision})
	if !ok {
		return UnknownExpression{Name: matchPrefix + name}
	}
	return x
}

func setMark(n uint32) any  { return extensionWith("MARK", 2, 8, fields{0: n, 4: n}) }
func isMarked(n uint32) any { return extensionWith("mark", 1, 12, fields{0: n, 4: n}) }
func oneOf(n int) any {
	return extensionWith("statistic", 0, 24, fields{0: uint16(1), 4: uint32(n - 1)})
}

func tcpPort(n uint16) any {
	return extensionWith("tcp", 0, 12, fields{2: uint16(65535), 4: n, 6: n})
}

func dnat(to netip.AddrPort) any {
	return extensionWith("DNAT", 0, 20, fields{
		4: uint32(3), 8: to.Addr(), 12: to.Addr(), 16: binary.BigEndian.AppendUint16(nil, to.Port()),
		18: binary.BigEndian.AppendUint16(nil, to.Port()),
	})
}

// sample6 is a packet of IPv6.
var sample6 = Packet{
	From: netip.MustParseAddr("2001:db8::9"), FromPort: 4000,
	To: netip.MustParseAddrPort("[fd00:10:96::10]:80"), Protocol: model.TCP,
}

// TestMatchesOfIPTables has matches that cannot be decided, and states that rules seldom ask for. integration/explain compares the others with the kernel.
func TestMatchesOfIPTables(t *testing.T) {
	anyPort := sample
	anyPort.FromPort = 0
	toNode := Packet{From: client, FromPort: 4000, To: netip.AddrPortFrom(nodeIP, 80), Protocol: model.SCTP}
	const any16 = uint16(65535)
	const yes, no, maybe = "yes", "no", "maybe"
	for _, tc := range []struct {
		p        Packet
		name     string
		revision uint32
		size     int
		f        fields
		want     string
	}{
		{sample, "comment", 0, 256, fields{0: []byte("web")}, yes},
		{sample, "u32", 0, 2000, nil, maybe},
		{sample, "mark", 9, 12, nil, maybe},
		{anyPort, "tcp", 0, 12, fields{0: uint16(4000), 2: uint16(4000), 6: any16}, maybe},
		{anyPort, "tcp", 0, 12, fields{0: uint16(4000), 2: uint16(4000), 4: uint16(81), 6: uint16(81)}, no},
		{sample, "tcp", 0, 12, fields{2: any16, 6: any16, 8: 2}, maybe},
		{anyPort, "multiport", 1, 48, fields{0: 2, 1: 1, 2: uint16(80)}, yes},
		{anyPort, "multiport", 1, 48, fields{0: 2, 1: 1, 2: uint16(81)}, maybe},
		{sample, "multiport", 1, 48, fields{0: 1, 1: 16}, maybe},
		{sample, "addrtype", 0, 12, nil, maybe},
		{toNode, "addrtype", 1, 8, fields{0: uint16(1 << unix.RTN_LOCAL), 2: uint16(1 << unix.RTN_LOCAL), 4: uint32(1)}, yes},
		{sample6, "addrtype", 1, 8, fields{2: uint16(1 << unix.RTN_MULTICAST), 4: uint32(2)}, yes},
		{sample, "addrtype", 1, 8, fields{2: uint16(1 << unix.RTN_LOCAL), 4: uint32(4)}, no},
		{toNode, "addrtype", 1, 8, fields{2: uint16(1 << unix.RTN_LOCAL), 4: uint32(4)}, yes},
		{sample, "state", 0, 4, fields{0: uint32(1<<3 | 1<<6)}, yes},
		{anyPort, "conntrack", 3, 168, fields{138: uint16(80), 154: uint16(80), 146: uint16(byPort)}, maybe},
		{sample, "conntrack", 3, 168, fields{146: uint16(byExpiry)}, maybe},
		{sample, "statistic", 0, 24, fields{4: uint32(1 << 31)}, yes},
		{sample, "statistic", 0, 24, fields{2: uint16(1), 4: uint32(1 << 31)}, no},
		{sample, "statistic", 0, 24, fields{0: uint16(2)}, maybe},
		{sample, "statistic", 0, 24, fields{4: ^uint32(0)}, maybe},
		{sample, "recent", 1, 228, nil, maybe},
		{sample, "set", 4, 44, nil, maybe},
		{sample, "length", 0, 6, fields{0: uint16(1000), 2: any16}, no},
		{sample, "length", 0, 6, fields{0: uint16(50), 2: any16}, maybe},
		{toNode, "socket", 3, 1, fields{0: 1}, no},
		{toNode, "socket", 3, 1, fields{0: 2}, maybe},
		{sample, "physdev", 0, 68, fields{65: 8}, maybe},
	} {
		f := node()
		hook := HookForward
		if tc.p == toNode {
			hook = HookInput
		}
		e := extensionWith(tc.name, tc.revision, tc.size, tc.f)
		f.chain(otherTable, "chain", "filter", hook, 0, []any{e, verdictOf(expr.VerdictDrop, "")})
		o, w := only(t, f, tc.p)
		got := map[bool]string{true: yes, false: no}[o.Verdict == path.VerdictDropped]
		if len(w.Doubts) > 0 {
			got = maybe
		}
		if got != tc.want {
			t.Errorf("%s, %s, revision %d, %v: %s, want %s (%q)", tc.p, tc.name, tc.revision, tc.f, got, tc.want, w.Doubts)
		}
	}
}

func TestTargetsTranslateAndMark(t *testing.T) {
	a, a6 := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("fd00::3")
	for _, tc := range []struct {
		name     string
		revision uint32
		v6       bool
		size     int
		f        fields
		want     translation
		fails    bool
	}{
		{"DNAT", 0, false, 20, fields{4: uint32(3), 8: a, 12: a, 16: []byte{0, 80, 0, 80}}, translation{addrs: addrRange{a, a}, ports: portRange{80, 80}}, false},
		{"DNAT", 0, true, 40, nil, translation{}, true},
		{"DNAT", 2, true, 44, fields{0: uint32(1), 4: a6, 20: a6}, translation{addrs: addrRange{a6, a6}}, false},
		{"DNAT", 2, false, 44, fields{0: uint32(32), 40: []byte{0, 80}}, translation{}, true},
		{"DNAT", 2, false, 42, fields{0: uint32(4 | 8)}, translation{randomPort: true}, false},
	} {
		got, err := info{tc.f.build(tc.size), tc.revision, tc.v6}.translation()
		if got != tc.want && !tc.fails || (err != nil) != tc.fails {
			t.Errorf("%s, revision %d: %+v, %v, want %+v", tc.name, tc.revision, got, err, tc.want)
		}
	}
	for _, tc := range []struct {
		revision           uint32
		f                  fields
		packet, connection uint32
	}{
		{1, fields{0: uint32(3), 4: uint32(0xff)}, 0x56, 0x1203},
		{1, fields{4: uint32(0xff), 8: uint32(0xf), 12: connMarkSave}, 0x56, 0x1206},
		{1, fields{4: uint32(0xff00), 8: uint32(0xffff), 12: connMarkRestore}, 0x1200, 0x1234},
		{2, fields{4: uint32(0xff00), 8: uint32(0xffff), 14: connMarkRestore}, 0x1200, 0x1234},
	} {
		w := &walk{sourceCache: &sourceCache{}}
		w.frame.mark, w.conn = 0x56, connection{known: true, mark: 0x1234}
		x := extensionWith("CONNMARK", tc.revision, 16, tc.f).(Extension)
		if _, err := x.run(w); err != nil || w.frame.mark != tc.packet || w.conn.mark != tc.connection {
			t.Errorf("%v: packet %#x, connection %#x, %v, want %#x and %#x", tc.f, w.frame.mark, w.conn.mark, err, tc.packet, tc.connection)
		}
	}
}

func TestTargetsDecideOrAreUndecided(t *testing.T) {
	for _, tc := range []struct {
		name     string
		revision uint32
		size     int
		f        fields
		want     string
		doubts   int
	}{
		{"CT", 2, 64, fields{0: uint16(1)}, path.VerdictNotService, 0},
		{"CT", 2, 64, fields{2: uint16(7)}, path.VerdictNotService, 1},
		{"CT", 2, 64, nil, path.VerdictNotService, 0},
		{"CONNMARK", 1, 16, fields{12: 3}, path.VerdictNotService, 1},
		{"REJECT", 0, 4, fields{0: uint32(7)}, path.VerdictRefused, 0},
		{"REJECT", 0, 4, fields{0: uint32(4)}, path.VerdictNotService, 1},
		{"SET", 3, 24, fields{8: ^uint16(0)}, path.VerdictNotService, 0},
		{"SET", 3, 24, fields{0: ^uint16(0), 8: uint16(9), 12: uint32(256)}, path.VerdictNotService, 1},
		{"LOG", 0, 34, nil, path.VerdictNotService, 0},
		{"connlabel", 1, 8, nil, path.VerdictNotService, 1}, // it can set one
	} {
		f := node()
		f.chain(otherTable, "forward", "filter", HookForward, 0, []any{extensionWith(tc.name, tc.revision, tc.size, tc.f)})
		if o, w := only(t, f, sample); o.Verdict != tc.want || len(w.Doubts) != tc.doubts {
			t.Errorf("%s, %v: %s, doubts %q, want %s", tc.name, tc.f, o.Verdict, w.Doubts, tc.want)
		}
	}
}

// FuzzExtensions proves that no structure makes a match or target panic, and that one that is cut
// is unknown.
func FuzzExtensions(f *testing.F) {
	for name, x := range extensions {
		for revision, size := range x.sizes {
			f.Add(name, revision, make([]byte, size))
			f.Add(name, revision, fields{0: 255, size: 255}.build(size+8))
			f.Add(name, revision, fields{}.build(max(size-1, 0)))
		}
	}
	f.Fuzz(func(t *testing.T, name string, revision uint32, data []byte) {
		x, ok := extensionOf(name, info{data: data, revision: revision})
		if !ok {
			return
		}
		if len(data) < x.sizes[revision] {
			t.Errorf("%s, revision %d, of %d bytes", name, revision, len(data))
		}
		n := node()
		n.chain(otherTable, "forward", "filter", HookForward, 0, []any{x, verdictOf(expr.VerdictDrop, "")})
		for _, p := range []Packet{sample, sample6} {
			if _, err := Run(n.sources(), p, Link{}); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestRequiredDestinationOfProtocols(t *testing.T) {
	for _, tc := range []struct {
		name   string
		size   int
		fields fields
		want   uint16
	}{
		{"tcp", 12, fields{4: uint16(80), 6: uint16(80)}, 80},
		{"tcp", 12, fields{4: uint16(80), 6: uint16(80), 11: 2}, 0},
		{"tcp", 12, fields{4: uint16(80), 6: uint16(81)}, 0},
		{"udp", 9, fields{4: uint16(53), 6: uint16(53)}, 53},
		{"udp", 9, fields{4: uint16(53), 6: uint16(53), 8: 2}, 0},
		{"sctp", 292, fields{0: uint16(80), 2: uint16(80), 284: uint32(2)}, 80},
		{"sctp", 292, fields{0: uint16(80), 2: uint16(80), 284: uint32(2), 288: uint32(2)}, 0},
		{"sctp", 292, fields{4: uint16(80), 6: uint16(80), 284: uint32(1)}, 0},
	} {
		x, ok := extensionOf(tc.name, info{data: tc.fields.build(tc.size)})
		if d := requiredDestination(Rule{Expressions: []any{x}}, model.IPv4); !ok || d.Port != tc.want {
			t.Errorf("%s %v: port %d, want %d", tc.name, tc.fields, d.Port, tc.want)
		}
	}
}
