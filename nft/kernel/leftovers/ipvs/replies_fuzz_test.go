package ipvs

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"
)

// FuzzServers has IPVS list any bytes as its virtual servers. Whatever they are,
// what is deleted was listed, and none that is marked or excluded.
func FuzzServers(f *testing.F) {
	service := func(attributes []netlink.Attribute) []byte {
		return nltest.MustMarshalAttributes([]netlink.Attribute{
			{Type: unix.NLA_F_NESTED | attrService, Data: nltest.MustMarshalAttributes(attributes)},
		})
	}
	mark := netlink.Attribute{Type: attrMark, Data: binary.NativeEndian.AppendUint32(nil, 7)}
	all := [][]byte{
		service(full(unix.IPPROTO_TCP, "10.96.0.1:443")),
		service(full(unix.IPPROTO_UDP, "[fd00:10:96::a]:53")),
		service(append(full(unix.IPPROTO_SCTP, "203.0.113.9:80"), mark)),
		service([]netlink.Attribute{{Type: attrAddress, Data: []byte{10}}, {Type: attrFamily, Data: []byte{10, 0}}}),
		service([]netlink.Attribute{mark}),
		{3, 0, 1, 0x80},
		{8, 0, 1, 0x80, 255, 255, 1, 0},
	}
	for i, b := range all {
		f.Add(b, all[(i+1)%len(all)])
	}
	f.Add(all[0][:len(all[0])-7], []byte{})
	except := []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("fd00::/16")}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		deleted := 0
		conn := nltest.Dial(func(requests []netlink.Message) ([]netlink.Message, error) {
			m := requests[0]
			switch {
			case m.Header.Type == unix.GENL_ID_CTRL:
				return multipart(m, []netlink.Message{familyEntry(m, genlName, ipvsID)})
			case m.Data[0] == cmdGetService:
				a, b := m, m
				a.Data, b.Data = append(make([]byte, genlHeaderLen), first...), append(make([]byte, genlHeaderLen), second...)
				return multipart(m, []netlink.Message{a, b})
			}
			deleted++
			outer, err := netlink.UnmarshalAttributes(m.Data[genlHeaderLen:])
			if err != nil || len(outer) != 1 {
				t.Fatalf("asked for % x: %v", m.Data, err)
			}
			ad, err := netlink.NewAttributeDecoder(outer[0].Data)
			if err != nil {
				t.Fatal(err)
			}
			if s := decode(ad); s.isFirewallMark || except[0].Contains(s.addr()) || except[1].Contains(s.addr()) {
				t.Errorf("deleted %s, which is somebody else's", s)
			}
			return nltest.Error(0, requests)
		})
		servers, err := list(conn, ipvsID)
		listed := len(servers)
		if listed > (len(first)+len(second))/4 {
			t.Fatalf("%d servers in %d bytes", listed, len(first)+len(second))
		}
		removed, removeErr := removeServers(conn, except)
		if err != nil && (removeErr == nil || removed > 0) || removed != deleted || removed > listed {
			t.Errorf("listed %d (%v), asked to delete %d, removed %d (%v)", listed, err, deleted, removed, removeErr)
		}
	})
}
