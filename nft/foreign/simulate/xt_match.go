package simulate

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

func (w *walk) matchMark(b info) (bool, error) {
	return w.frame.mark&b.u32(4) == b.u32(0) != (b.u8(8) != 0), nil
}

func (w *walk) matchConnMark(b info) (bool, error) {
	return w.conn.known && w.conn.mark&b.u32(4) == b.u32(0) != (b.u8(8) != 0), nil
}

const errUnknownPort = undecidedError("a match of the client's port, which is not named")

func (w *walk) ends() [2]netip.AddrPort {
	return [...]netip.AddrPort{w.frame.source(), w.frame.destination()}
}

// matchPorts compares both ports with ranges, which the first two bits of invert exclude.
func (w *walk) matchPorts(source, destination portRange, invert uint8) (ok bool, undecided error) {
	for i, r := range [...]portRange{source, destination} {
		port := w.ends()[i].Port()
		switch {
		case port == 0 && r != anyPort:
			undecided = errUnknownPort
		case r.contains(port) == (invert>>i&1 != 0):
			return false, nil
		}
	}
	return undecided == nil, undecided
}

func (w *walk) matchTCP(b info) (bool, error) {
	const invertFlags, invertOption = 4, 8
	option, mask, flags, invert := b.u8(8), b.u8(9), b.u8(10), b.u8(11)
	ok, err := w.matchPorts(b.ports(0), b.ports(4), invert)
	flagsMatch := mask == 0 || w.frame.protocol != model.TCP ||
		w.frame.transport.bytes[tcpFlags]&mask == flags != (invert&invertFlags != 0)
	switch {
	case !ok && err == nil, !flagsMatch:
		return false, nil
	case option != 0 || invert&invertOption != 0:
		return false, undecidedError("a match of a TCP option")
	}
	return ok, err
}

func (w *walk) matchUDP(b info) (bool, error) { return w.matchPorts(b.ports(0), b.ports(4), b.u8(8)) }

// Bits of a match of a protocol: what it compares, and what is inverted.
const sourcePorts, destinationPorts = 1, 2

func tcpDestination(b info) portRange { return b.destinationUnless(b.u8(11)) }
func udpDestination(b info) portRange { return b.destinationUnless(b.u8(8)) }

// destinationUnless returns the destination ports of tcp and udp, unless they are inverted.
func (b info) destinationUnless(invert uint8) portRange {
	if invert&destinationPorts != 0 {
		return anyPort
	}
	return b.ports(4)
}

func sctpDestination(b info) portRange {
	if b.u32(284)&destinationPorts == 0 || b.u32(288)&destinationPorts != 0 {
		return anyPort
	}
	return b.ports(0)
}

// matchSCTP matches struct xt_sctp_info, but not its chunks.
func (w *walk) matchSCTP(b info) (bool, error) {
	const chunks = 4
	flags, invert := b.u32(284), b.u32(288)
	from, to := anyPort, anyPort
	if flags&sourcePorts != 0 {
		from = b.ports(4)
	}
	if flags&destinationPorts != 0 {
		to = b.ports(0)
	}
	ok, err := w.matchPorts(from, to, uint8(flags&invert))
	switch {
	case !ok && err == nil, flags&chunks == 0:
		return ok, err
	case w.frame.protocol != model.SCTP:
		return false, nil
	}
	return false, undecidedError("a match of SCTP chunks")
}

func (w *walk) matchMultiPort(b info) (bool, error) {
	const either, most = 2, 15 // XT_MULTI_PORTS
	side, n, invert := int(b.u8(0)), int(b.u8(1)), b.u8(47) != 0
	if side > either || n > most {
		return false, undecidedError(matchPrefix + "multiport")
	}
	unknown := false
	for i, a := range w.ends() {
		switch {
		case side != either && side != i:
		case a.Port() == 0:
			unknown = true
		case b.hasPort(a.Port(), n):
			return !invert, nil
		}
	}
	if unknown {
		return false, errUnknownPort
	}
	return invert, nil
}

func (b info) hasPort(port uint16, n int) bool {
	for i := 0; i < n; i++ {
		r := portRange{b.u16(2 + 2*i), b.u16(2 + 2*i)}
		if isRange := b.u8(32+i) != 0; isRange && i+1 < n {
			i++
			r.to = b.u16(2 + 2*i)
		}
		if r.contains(port) {
			return true
		}
	}
	return false
}

// matchAddrType matches struct xt_addrtype_info_v1, by bits 1 << RTN_*.
func (w *walk) matchAddrType(b info) (bool, error) {
	const ofInterface = 3 // the bits of the interface that it comes in by, and leaves by
	flags := b.u32(4)
	for i, a := range w.ends() {
		types := b.u16(2 * i)
		if types == 0 {
			continue
		}
		on := [...]Link{{}, w.frame.in, w.frame.out}[flags>>2&ofInterface%ofInterface]
		kind, err := w.addressTypeOn(a.Addr(), on)
		if err != nil {
			return false, err
		}
		if hasType(types, kind, a.Addr()) == (flags>>i&1 != 0) {
			return false, nil
		}
	}
	return true, nil
}

// hasType reports whether an address has one of the types. An IPv6 address may have several
// (match_type6 of net/netfilter/xt_addrtype.c).
func hasType(types uint16, kind uint32, a netip.Addr) bool {
	if a.Is4() {
		return types&(1<<kind) != 0
	}
	const byRoute = 1<<unix.RTN_LOCAL | 1<<unix.RTN_ANYCAST | 1<<unix.RTN_UNREACHABLE
	switch {
	case types&(1<<unix.RTN_MULTICAST) != 0 && !a.IsMulticast(),
		types&(1<<unix.RTN_UNICAST) != 0 && (a.IsMulticast() || a.IsUnspecified()),
		types&(1<<unix.RTN_UNSPEC) != 0 && !a.IsUnspecified():
		return false
	case types&byRoute != 0 && (kind == unix.RTN_BLACKHOLE || kind == unix.RTN_PROHIBIT || kind == unix.RTN_THROW):
		return types&(1<<unix.RTN_UNREACHABLE) != 0
	case types&byRoute != 0:
		return types&byRoute&(1<<kind) != 0
	}
	return true
}

func (w *walk) matchIPRange(b info) (bool, error) {
	flags := b.u8(4 * addrLen)
	for i, a := range w.ends() {
		r := addrRange{b.addr(2 * i * addrLen), b.addr((2*i + 1) * addrLen)}
		if flags>>i&1 != 0 && r.contains(a.Addr()) == (flags>>(i+4)&1 != 0) {
			return false, nil
		}
	}
	return true, nil
}

// masked returns an address without the bits that a mask does not have.
func masked(a, mask netip.Addr) netip.Addr {
	b, m := a.AsSlice(), mask.AsSlice()
	for i := range min(len(b), len(m)) {
		b[i] &= m[i]
	}
	a, _ = netip.AddrFromSlice(b)
	return a
}

// matchStatistic matches a share of the packets, at random or in turn (struct xt_statistic_info);
// each result has a walk of its own.
func (w *walk) matchStatistic(b info) (bool, error) {
	const nth = 1
	probability, invert := float64(b.u32(4))/(1<<31), b.u16(2)&1 != 0
	if b.u16(0) == nth {
		probability = 1 / (float64(b.u32(4)) + 1)
	}
	switch {
	case b.u16(0) > nth || probability > 1:
		return false, undecidedError(matchPrefix + "statistic")
	case probability == 0 || probability == 1:
		return (probability == 1) != invert, nil
	}
	return w.chooseFirst(probability) != invert, nil
}

// matchRPFilter is rpfilter_mt of net/ipv4/netfilter/ipt_rpfilter.c.
func (w *walk) matchRPFilter(b info) (bool, error) {
	loose, mark, acceptLocal, invert := b.u8(0)&1 != 0, b.u8(0)&2 != 0, b.u8(0)&4 != 0, b.u8(0)&8 != 0
	if w.frame.in == (Link{}) || w.frame.in.Name == loopback {
		return !invert, nil
	}
	query := RouteQuery{To: w.frame.source().Addr(), From: w.frame.destination().Addr(), Lookup: true}
	if b.v6 {
		query.Protocol = w.frame.protocol
	}
	if mark {
		query.Mark = w.frame.mark
	}
	r, err := w.lookUpSource(query)
	switch {
	case errors.Is(err, ErrNoRoute):
		return invert, nil
	case err != nil:
		return false, err
	case r.Local && (b.v6 || !acceptLocal):
		return acceptLocal != invert, nil
	case loose:
		return !invert, nil
	}
	uses, err := w.uses(r, w.frame.in)
	return uses != invert, err
}

// matchPhysDev is physdev_mt of net/netfilter/xt_physdev.c. Routed packets are not bridged;
// whether they came in by a bridge is not known.
func (w *walk) matchPhysDev(b info) (bool, error) {
	const in, out, isBridged, isIn, isOut = 1, 2, 4, 8, 16 // XT_PHYSDEV_OP_*
	invert, match := b.u8(64), b.u8(65)
	required := match &^ invert
	if required&(out|isBridged|isOut) != 0 || w.frame.in == (Link{}) || match&(in|isIn|out) == 0 {
		return required == 0, nil
	}
	return false, undecidedError("a match of the port of a bridge")
}

// matchHelper is helper_mt of net/netfilter/xt_helper.c. A connection that no other one
// announced has no master.
func (w *walk) matchHelper(b info) (bool, error) {
	if w.conn.status&statusExpected != 0 {
		return false, undecidedError("a match of the helper of a connection")
	}
	return b.u32(0) != 0, nil
}

// statusExpected is the status of a connection that another one announced (IPS_EXPECTED).
const statusExpected = 1 << 0

func (w *walk) matchPacketType(b info) (bool, error) {
	kind, err := w.packetType()
	return uint32(kind) == b.u32(0) != (b.u32(4) != 0), err
}

// packetType returns what the link delivers the packet as (PACKET_*).
func (w *walk) packetType() (uint8, error) {
	if w.frame.packetType != nil {
		return w.frame.packetType[0], nil
	}
	if w.frame.fromNode {
		return unix.PACKET_HOST, nil
	}
	kind, err := w.addressType(w.packet.To.Addr())
	switch kind {
	case unix.RTN_BROADCAST:
		return unix.PACKET_BROADCAST, err
	case unix.RTN_MULTICAST:
		return unix.PACKET_MULTICAST, err
	}
	return unix.PACKET_HOST, err
}

func (w *walk) matchLength(b info) (bool, error) {
	low, high := w.frame.lengths()
	from, to := uint64(b.u16(0)), uint64(b.u16(2))
	if outside := to < low || from > high; outside || from <= low && high <= to {
		return outside == (b.u8(4) != 0), nil
	}
	return false, undecidedError("a match of the length of the packet")
}

// matchOwner is owner_mt of net/netfilter/xt_owner.c. A packet that the node sends is taken to
// be one of root.
func (w *walk) matchOwner(b info) (bool, error) {
	const user, group, socket = 1, 2, 4 // XT_OWNER_*
	match, invert := b.u8(16), b.u8(17)
	hasRoot, hasRootGroup := b.u32(0) == 0, b.u32(8) == 0 // as the first of a range
	switch {
	case !w.frame.fromNode:
		return match&^invert == 0, nil
	case match&invert&socket != 0:
		return false, nil
	}
	return (match&user == 0 || hasRoot != (invert&user != 0)) &&
		(match&group == 0 || hasRootGroup != (invert&group != 0)), nil
}
