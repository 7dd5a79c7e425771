package kubeproxy

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// fakeIPVS is a generic netlink with two families, one of which is IPVS.
type fakeIPVS struct {
	servers [][]netlink.Attribute
	missing bool       // the kernel has no IPVS
	refuses unix.Errno // error of each deletion
	deleted [][]netlink.Attribute
	asked   []uint8 // commands sent to the family
}

const ipvsID = 37

func (k *fakeIPVS) serve(requests []netlink.Message) ([]netlink.Message, error) {
	m := requests[0]
	command := m.Data[0]
	switch {
	case m.Header.Type == unix.GENL_ID_CTRL && command == unix.CTRL_CMD_GETFAMILY && m.Header.Flags&netlink.Dump != 0:
		families := []netlink.Message{familyEntry(m, "nlctrl", unix.GENL_ID_CTRL)}
		if !k.missing {
			families = append(families, familyEntry(m, "IPVS", ipvsID))
		}
		return nltest.Multipart(append(families, netlink.Message{Header: m.Header}))
	case m.Header.Type != ipvsID:
		return nil, fmt.Errorf("unexpected request %v", m.Header)
	}
	k.asked = append(k.asked, command)
	if command == cmdGetService {
		answers := []netlink.Message{}
		for _, s := range k.servers {
			answers = append(answers, reply(m, netlink.Attribute{Type: unix.NLA_F_NESTED | attrService, Data: nltest.MustMarshalAttributes(s)}))
		}
		return nltest.Multipart(append(answers, netlink.Message{Header: m.Header}))
	}
	outer, err := netlink.UnmarshalAttributes(m.Data[attr.BodyHeaderLen:])
	if err != nil {
		return nil, err
	}
	inner, err := netlink.UnmarshalAttributes(outer[0].Data)
	if err != nil {
		return nil, err
	}
	k.deleted = append(k.deleted, inner)
	return nltest.Error(int(k.refuses), requests)
}

func familyEntry(m netlink.Message, name string, id uint16) netlink.Message {
	return reply(m,
		netlink.Attribute{Type: unix.CTRL_ATTR_FAMILY_NAME, Data: append([]byte(name), 0)},
		netlink.Attribute{Type: unix.CTRL_ATTR_FAMILY_ID, Data: binary.NativeEndian.AppendUint16(nil, id)},
	)
}

func reply(m netlink.Message, attributes ...netlink.Attribute) netlink.Message {
	m.Data = append([]byte{0, 1, 0, 0}, nltest.MustMarshalAttributes(attributes)...)
	return m
}

// named is what names a server of an address, as the kernel has it
// (ip_vs_genl_fill_service in net/netfilter/ipvs/ip_vs_ctl.c).
func named(protocol uint16, to string) []netlink.Attribute {
	at := netip.MustParseAddrPort(to)
	family := uint16(unix.AF_INET)
	if at.Addr().Is6() {
		family = unix.AF_INET6
	}
	address := make([]byte, 16)
	copy(address, at.Addr().AsSlice())
	return []netlink.Attribute{
		{Type: attrFamily, Data: binary.NativeEndian.AppendUint16(nil, family)},
		{Type: attrProtocol, Data: binary.NativeEndian.AppendUint16(nil, protocol)},
		{Type: attrAddress, Data: address},
		{Type: attrPort, Data: binary.BigEndian.AppendUint16(nil, at.Port())},
	}
}

// full is a server as it is listed, with more than its name.
func full(protocol uint16, to string) []netlink.Attribute {
	return append(named(protocol, to), netlink.Attribute{Type: 6, Data: []byte("rr\x00")})
}

func TestRemoveServersDeletesByKey(t *testing.T) {
	mark := []netlink.Attribute{
		{Type: attrFamily, Data: binary.NativeEndian.AppendUint16(nil, unix.AF_INET)},
		{Type: attrMark, Data: binary.NativeEndian.AppendUint32(nil, 7)},
	}
	k := &fakeIPVS{servers: [][]netlink.Attribute{
		full(unix.IPPROTO_TCP, "10.96.0.1:443"),
		full(unix.IPPROTO_UDP, "[fd00:10:96::a]:53"),
		mark,
		full(unix.IPPROTO_SCTP, "10.96.0.7:3868"),
		full(unix.IPPROTO_TCP, "203.0.113.9:80"),
		full(unix.IPPROTO_TCP, "[2001:db8:113::9]:80"),
	}}
	except := []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8:113::/48")}
	n, err := removeServers(nltest.Dial(k.serve), except)
	if n != 3 || err != nil {
		t.Errorf("removed %d: %v", n, err)
	}
	want := [][]netlink.Attribute{
		named(unix.IPPROTO_TCP, "10.96.0.1:443"),
		named(unix.IPPROTO_UDP, "[fd00:10:96::a]:53"),
		named(unix.IPPROTO_SCTP, "10.96.0.7:3868"),
	}
	if len(k.deleted) != len(want) {
		t.Fatalf("deleted %v, want %v", k.deleted, want)
	}
	for i := range want {
		if got := nltest.MustMarshalAttributes(k.deleted[i]); !slices.Equal(got, nltest.MustMarshalAttributes(want[i])) {
			t.Errorf("deleted % x\n   want % x", got, nltest.MustMarshalAttributes(want[i]))
		}
	}
}

func TestRemoveServersSendsNothingWithoutIPVS(t *testing.T) {
	k := &fakeIPVS{missing: true}
	if n, err := removeServers(nltest.Dial(k.serve), nil); n != 0 || err != nil || len(k.asked) > 0 {
		t.Errorf("removed %d, asked %v: %v", n, k.asked, err)
	}
}

func TestRemoveServersIgnoresServersAlreadyRemoved(t *testing.T) {
	for errno, fails := range map[unix.Errno]bool{unix.ESRCH: false, unix.EPERM: true} {
		k := &fakeIPVS{servers: [][]netlink.Attribute{full(unix.IPPROTO_TCP, "10.96.0.1:443")}, refuses: errno}
		if n, err := removeServers(nltest.Dial(k.serve), nil); n != 0 || (err != nil) != fails {
			t.Errorf("%v: removed %d: %v", errno, n, err)
		}
	}
}

func TestIPSetNamesAreThoseOfKubeProxy(t *testing.T) {
	names := IPSetNames()
	for _, name := range []string{
		"KUBE-CLUSTER-IP", "KUBE-6-CLUSTER-IP", "KUBE-LOOP-BACK", "KUBE-IPVS-IPS", "KUBE-NODE-PORT-LOCAL-SCTP-HASH",
		"KUBE-6-LOAD-BALANCER-SOURCE-CID", // cut to the longest name
		"KUBE-6-NODE-PORT-LOCAL-SCTP-HAS",
	} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing", name)
		}
	}
	slices.Sort(names)
	if n := len(slices.Compact(names)); n != 34 {
		t.Errorf("%d names, want 17 of each family", n)
	}
}
