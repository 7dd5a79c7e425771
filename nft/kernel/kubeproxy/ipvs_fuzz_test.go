package kubeproxy

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// FuzzServers decodes any bytes as virtual servers. Only listed ones are deleted, and none of
// a firewall mark or of an excluded range.
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
				return multipart(m, []netlink.Message{familyEntry(m, familyName, ipvsID)})
			case m.Data[0] == cmdGetService:
				a, b := m, m
				a.Data, b.Data = append(make([]byte, attr.BodyHeaderLen), first...), append(make([]byte, attr.BodyHeaderLen), second...)
				return multipart(m, []netlink.Message{a, b})
			}
			deleted++
			outer, err := netlink.UnmarshalAttributes(m.Data[attr.BodyHeaderLen:])
			if err != nil || len(outer) != 1 {
				t.Fatalf("asked for % x: %v", m.Data, err)
			}
			if s := decodeServer(&attr.Decoder{}, outer[0].Data); s.isFirewallMark || except[0].Contains(s.at.Addr()) || except[1].Contains(s.at.Addr()) {
				t.Errorf("deleted %s, which is not kube-proxy's", s.at)
			}
			return nltest.Error(0, requests)
		})
		servers, err := listServers(conn, ipvsID)
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
