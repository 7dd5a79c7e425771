package flows

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

// A table is the connection tracking of a network namespace, written without the code under test.
type table struct {
	t    testing.TB
	host *lab.Host
}

// newTable returns the empty table of a new network namespace.
func newTable(t testing.TB) *table {
	t.Helper()
	return &table{t: t, host: labtest.Alone(t)}
}

// open returns the code under test on this table.
func (x *table) open() *conntrack.Conntrack {
	return conntrack.New(conntrack.Config{NetNS: x.host.FD()})
}

// ctaTupleZone is the zone within a tuple (CTA_TUPLE_ZONE), which the library does not have.
const ctaTupleZone = 3

// A flow is an entry as the tests write and read it.
type flow struct {
	protocol model.Protocol
	client   netip.AddrPort
	to       netip.AddrPort // the service address
	by       netip.AddrPort // the endpoint, or to
	sees     netip.AddrPort // the client as the endpoint sees it; the zero value means client
	zone     uint16
	oneWay   uint16 // the zone of the original direction only
	// translated makes the kernel translate the destination, so that the entry is marked
	// as one whose destination was; otherwise by only becomes the source of replies.
	translated bool
	replied    bool // by has answered
}

func (f flow) String() string {
	s := fmt.Sprintf("%s %s -> %s by %s", f.protocol, f.client, f.to, f.by)
	if f.sees != f.client {
		s += fmt.Sprintf(" for %s", f.sees)
	}
	if f.zone != 0 || f.oneWay != 0 {
		s += fmt.Sprintf(" in zone %d, one way %d", f.zone, f.oneWay)
	}
	return s
}

// bare returns the flow without what only its writing needs, as it is read.
func (f flow) bare() flow {
	f.zone, f.oneWay, f.translated, f.replied = 0, 0, false, false
	if !f.sees.IsValid() {
		f.sees = f.client
	}
	return f
}

func (x *table) add(flows ...flow) {
	x.t.Helper()
	var batch []byte
	for _, f := range flows {
		batch = append(batch, f.request()...)
	}
	if err := x.host.Do(func() error { return send(batch, len(flows)) }); err != nil {
		x.t.Fatal(err)
	}
}

// send sends messages to the kernel, which answers only if it refuses one.
func send(batch []byte, n int) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 2*len(batch)); err != nil {
		return fmt.Errorf("set the buffer size: %w", err)
	}
	if err := unix.Sendto(fd, batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("send %d entries: %w", n, err)
	}
	answer := make([]byte, 4096)
	read, _, err := unix.Recvfrom(fd, answer, unix.MSG_DONTWAIT)
	switch {
	case err == unix.EAGAIN:
		return nil
	case err != nil:
		return fmt.Errorf("write %d entries: %w", n, err)
	}
	if read >= 20 {
		if errno := -int32(nl.NativeEndian().Uint32(answer[16:])); errno != 0 {
			return fmt.Errorf("write %d entries: %w", n, unix.Errno(errno))
		}
	}
	return nil
}

func (f flow) request() []byte {
	sees := f.sees
	if !sees.IsValid() {
		sees = f.client
	}
	r := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	r.AddData(&nl.Nfgenmsg{NfgenFamily: family(f.to.Addr()), Version: nl.NFNETLINK_V0})
	original := f.tuple(nl.CTA_TUPLE_ORIG, f.client, f.to)
	if f.oneWay != 0 {
		original.AddRtAttr(ctaTupleZone, nl.BEUint16Attr(f.oneWay))
	}
	r.AddData(original)
	if f.translated {
		r.AddData(f.tuple(nl.CTA_TUPLE_REPLY, f.to, sees))
		r.AddData(f.translation())
	} else {
		r.AddData(f.tuple(nl.CTA_TUPLE_REPLY, f.by, sees))
	}
	r.AddData(nl.NewRtAttr(nl.CTA_TIMEOUT, nl.BEUint32Attr(600)))
	if f.zone != 0 {
		r.AddData(nl.NewRtAttr(nl.CTA_ZONE, nl.BEUint16Attr(f.zone)))
	}
	if f.replied {
		r.AddData(nl.NewRtAttr(nl.CTA_STATUS, nl.BEUint32Attr(ipsSeenReply|ipsConfirmed)))
	}
	if f.protocol == model.TCP {
		info := nl.NewRtAttr(unix.NLA_F_NESTED|nl.CTA_PROTOINFO, nil)
		info.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_PROTOINFO_TCP, nil).AddRtAttr(nl.CTA_PROTOINFO_TCP_STATE, []byte{3}) // established
		r.AddData(info)
	}
	return r.Serialize()
}

// Bits of the status (enum ip_conntrack_status). The kernel confirms each entry that is written.
const ipsSeenReply, ipsConfirmed = 1 << 1, 1 << 3

// Attributes of a translation (enum ctattr_nat), which the library does not have.
const (
	ctaNATDst                              = 13
	ctaNATv4MinIP, ctaNATv4MaxIP           = 1, 2
	ctaNATv6MinIP, ctaNATv6MaxIP           = 4, 5
	ctaNATProto                            = 3
	ctaProtoNATMinPort, ctaProtoNATMaxPort = 1, 2
)

// translation returns the attribute that translates the destination to by.
func (f flow) translation() *nl.RtAttr {
	first, last := ctaNATv4MinIP, ctaNATv4MaxIP
	if f.by.Addr().Is6() {
		first, last = ctaNATv6MinIP, ctaNATv6MaxIP
	}
	nat := nl.NewRtAttr(unix.NLA_F_NESTED|ctaNATDst, nil)
	nat.AddRtAttr(first, f.by.Addr().AsSlice())
	nat.AddRtAttr(last, f.by.Addr().AsSlice())
	ports := nat.AddRtAttr(unix.NLA_F_NESTED|ctaNATProto, nil)
	ports.AddRtAttr(ctaProtoNATMinPort, nl.BEUint16Attr(f.by.Port()))
	ports.AddRtAttr(ctaProtoNATMaxPort, nl.BEUint16Attr(f.by.Port()))
	return nat
}

func (f flow) tuple(kind int, src, dst netip.AddrPort) *nl.RtAttr {
	from, to := nl.CTA_IP_V4_SRC, nl.CTA_IP_V4_DST
	if src.Addr().Is6() {
		from, to = nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST
	}
	t := nl.NewRtAttr(unix.NLA_F_NESTED|kind, nil)
	addresses := t.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_IP, nil)
	addresses.AddRtAttr(from, src.Addr().AsSlice())
	addresses.AddRtAttr(to, dst.Addr().AsSlice())
	ports := t.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_PROTO, nil)
	ports.AddRtAttr(nl.CTA_PROTO_NUM, []byte{uint8(f.protocol)})
	ports.AddRtAttr(nl.CTA_PROTO_SRC_PORT, nl.BEUint16Attr(src.Port()))
	ports.AddRtAttr(nl.CTA_PROTO_DST_PORT, nl.BEUint16Attr(dst.Port()))
	return t
}

func family(a netip.Addr) uint8 {
	if a.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// A walk is a method of [conntrack.Conntrack].
type walk = func(begin func(), fn func(conntrack.Entry)) error

// expect checks that a walk passes these entries and no others, which are open, and returns their
// numbers.
func (x *table) expect(what string, each walk, want []flow) map[flow]uint32 {
	x.t.Helper()
	var have map[flow]uint32
	err := each(func() { have = map[flow]uint32{} }, func(e conntrack.Entry) {
		if !e.Open {
			x.t.Errorf("%v is not open", e)
		}
		have[flow{protocol: e.Protocol, client: e.Client, to: e.Original, by: e.Reply, sees: e.SeenSource}] = e.ID
	})
	if err != nil {
		x.t.Fatal(err)
	}
	more := maps.Clone(have)
	for _, f := range want {
		if _, ok := have[f.bare()]; !ok {
			x.t.Errorf("%s: no %s", what, f)
		}
		delete(more, f.bare())
	}
	for f := range more {
		x.t.Errorf("%s: unexpected %s", what, f)
	}
	return have
}

// remain checks that these entries are left.
func (x *table) remain(want []flow) { x.t.Helper(); x.expect("left", x.open().Each, want) }
