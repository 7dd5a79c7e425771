package simulate

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/simulate/xt"
)

// isXTMatch reports whether an expression is a known match of iptables.
func isXTMatch(e any) bool {
	switch e.(type) {
	case xt.Never, xt.Mark, xt.Ports, xt.MultiPort, xt.AddrType, xt.IPRange, xt.Conntrack,
		xt.Statistic, xt.Recent, xt.Owner, xt.PhysDev, xt.RPFilter, xt.InSet, xt.Helper, xt.ConnLabel,
		xt.PacketType, xt.Length, xt.CGroup, xt.Socket:
		return true
	}
	return false
}

// xtMatch runs a match of iptables.
func (w *walk) xtMatch(e any) (verdict, error) {
	ok, err := w.xtMatches(e)
	return matchVerdict(ok), err
}

func (w *walk) xtMatches(e any) (bool, error) {
	switch e := e.(type) {
	case xt.Mark:
		mark := w.frame.mark
		if e.Connection {
			if mark = w.conn.mark; !w.conn.known {
				return false, nil
			}
		}
		return mark&e.Mask == e.Value != e.Invert, nil
	case xt.Ports:
		return w.matchPorts(e)
	case xt.MultiPort:
		return w.matchMultiPort(e)
	case xt.AddrType:
		return w.matchAddrType(e)
	case xt.IPRange:
		matches := func(r xt.AddrRange, a netip.Addr, invert bool) bool {
			return !r.From.IsValid() || r.Contains(a) != invert
		}
		return matches(e.Source, w.frame.source().Addr(), e.InvertSource) &&
			matches(e.Destination, w.frame.destination().Addr(), e.InvertDestination), nil
	case xt.Conntrack:
		return w.matchConntrack(e)
	case xt.Statistic:
		return w.matchStatistic(e), nil
	case xt.RPFilter:
		return w.matchRPFilter(e)
	case xt.Recent:
		return w.matchRecent(e)
	case xt.Owner:
		return w.matchOwner(e)
	case xt.PhysDev:
		return w.matchPhysDev(e)
	case xt.InSet:
		return w.matchSet(e)
	case xt.Socket:
		return w.matchSocket(e)
	}
	return w.matchOther(e)
}

const errUnknownPort = undecidedError("a match of the client's port, which is not named")

func (w *walk) matchPorts(e xt.Ports) (bool, error) {
	unknown := false
	for _, side := range []struct {
		ports  xt.PortRange
		invert bool
		port   uint16
	}{
		{e.Source, e.InvertSource, w.frame.source().Port()},
		{e.Destination, e.InvertDestination, w.frame.destination().Port()},
	} {
		switch {
		case side.port == 0 && side.ports != xt.AnyPort:
			unknown = true
		case side.ports.Contains(side.port) == side.invert:
			return false, nil
		}
	}
	if ok, err := w.matchHeader(e); !ok || err != nil {
		return ok, err
	}
	if unknown {
		return false, errUnknownPort
	}
	return true, nil
}

// matchHeader matches the flags of TCP and the chunks of SCTP. Packets that begin a
// connection have one chunk.
func (w *walk) matchHeader(e xt.Ports) (bool, error) {
	switch {
	case e.FlagMask != 0 && w.frame.protocol == model.TCP:
		if w.frame.transport.bytes[tcpFlags]&e.FlagMask == e.Flags == e.InvertFlags {
			return false, nil
		}
	case e.Chunks != nil && (e.Chunks.Flags || w.flow != nil):
		return false, undecidedError("a match of SCTP chunks")
	case e.Chunks != nil:
		chunk := w.frame.transport.bytes[chunkType]
		var only [256]bool
		only[chunk] = true
		if has := e.Chunks.Types[chunk] && (e.Chunks.How != xt.ChunkAll || e.Chunks.Types == only); has == e.InvertChunks {
			return false, nil
		}
	}
	if e.Option != 0 {
		return false, undecidedError("a match of a TCP option")
	}
	return true, nil
}

func (w *walk) matchMultiPort(e xt.MultiPort) (bool, error) {
	has := func(port uint16) bool {
		return slices.ContainsFunc(e.Ports, func(r xt.PortRange) bool { return r.Contains(port) })
	}
	source, destination := w.frame.source().Port(), w.frame.destination().Port()
	switch {
	case e.Side != xt.Source && destination != 0 && has(destination), e.Side != xt.Destination && source != 0 &&
		has(source):
		return !e.Invert, nil
	case e.Side != xt.Source && destination == 0, e.Side != xt.Destination && source == 0:
		return false, errUnknownPort
	}
	return e.Invert, nil
}

func (w *walk) matchAddrType(e xt.AddrType) (bool, error) {
	for _, side := range []struct {
		types  uint16
		invert bool
		addr   netip.Addr
	}{
		{e.Source, e.InvertSource, w.frame.source().Addr()},
		{e.Destination, e.InvertDestination, w.frame.destination().Addr()},
	} {
		if side.types == 0 {
			continue
		}
		kind, err := w.addressType(side.addr)
		if err != nil {
			return false, err
		}
		if e.OfInterface && kind == unix.RTN_LOCAL {
			return false, errInterfaceType
		}
		if hasType(side.types, kind, side.addr) == side.invert {
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
	case types&byRoute != 0:
		return types&byRoute&(1<<kind) != 0
	}
	return true
}

// matchConntrack is conntrack_mt of net/netfilter/xt_conntrack.c.
func (w *walk) matchConntrack(e xt.Conntrack) (bool, error) {
	c := &w.conn
	inverted := func(f xt.ConntrackFlags) bool { return e.Invert&f != 0 }
	if e.Flags&xt.ConntrackState != 0 {
		if w.xtState()&e.State != 0 == inverted(xt.ConntrackState) {
			return false, nil
		}
	}
	if !c.known {
		return e.Flags&xt.ConntrackState != 0, nil
	}
	if e.Flags&xt.ConntrackDirection != 0 && inverted(xt.ConntrackDirection) != c.reply ||
		e.Flags&xt.ConntrackProtocol != 0 && e.Protocol == uint8(w.frame.protocol) == inverted(xt.ConntrackProtocol) ||
		e.Flags&xt.ConntrackStatus != 0 && uint32(e.Status)&c.status != 0 == inverted(xt.ConntrackStatus) {
		return false, nil
	}
	for i, a := range [...]netip.AddrPort{c.client, c.requested, c.endpoint, c.seenSource} {
		byAddr, byPort := xt.ConntrackOriginalSource<<i, xt.ConntrackOriginalSourcePort<<i
		if e.Flags&byAddr != 0 && e.Addrs[i].Contains(a.Addr()) == inverted(byAddr) {
			return false, nil
		}
		if e.Flags&byPort == 0 {
			continue
		}
		if a.Port() == 0 {
			return false, errUnknownPort
		}
		if e.Ports[i].Contains(a.Port()) == inverted(byPort) {
			return false, nil
		}
	}
	if e.Flags&xt.ConntrackExpires != 0 {
		return false, undecidedError("a match of when a connection expires")
	}
	return true, nil
}

// xtState returns the state of the connection as iptables numbers it.
func (w *walk) xtState() (state uint16) {
	c := &w.conn
	switch {
	case c.untracked:
		return xt.StateUntracked
	case !c.known:
		return xt.StateInvalid
	}
	state = uint16(c.state) // the same bits
	if c.status&statusSourceNAT != 0 {
		state |= xt.StateSourceNAT
	}
	if c.status&statusDestNAT != 0 {
		state |= xt.StateDestNAT
	}
	return state
}

// matchStatistic matches a share of the packets; each result has a walk of its own.
func (w *walk) matchStatistic(e xt.Statistic) bool {
	switch e.Probability {
	case 0:
		return e.Invert
	case 1:
		return !e.Invert
	}
	return w.chooseFirst(e.Probability) != e.Invert
}

// matchRPFilter is rpfilter_mt of net/ipv4/netfilter/ipt_rpfilter.c.
func (w *walk) matchRPFilter(e xt.RPFilter) (bool, error) {
	if w.frame.in == (Link{}) {
		return !e.Invert, nil
	}
	query := RouteQuery{To: w.frame.source().Addr()}
	if e.Mark {
		query.Mark = w.frame.mark
	}
	r, err := w.route(query)
	switch {
	case errors.Is(err, ErrNoRoute):
		return e.Invert, nil
	case err != nil:
		return false, err
	case r.Local && r.Out == w.frame.in: // from the node to itself
		return !e.Invert, nil
	case r.Local:
		return e.AcceptLocal != e.Invert, nil
	}
	return (e.Loose || r.Out == w.frame.in) != e.Invert, nil
}

// matchPhysDev is physdev_mt of net/netfilter/xt_physdev.c. Routed packets are not bridged;
// whether they came in by a bridge is not known.
func (w *walk) matchPhysDev(e xt.PhysDev) (bool, error) {
	const bridged, of = xt.PhysDevOut | xt.PhysDevBridged | xt.PhysDevIsOut, xt.PhysDevIn | xt.PhysDevIsIn | xt.PhysDevOut
	required := e.Match &^ e.Invert
	if required&bridged != 0 || w.frame.in == (Link{}) || e.Match&of == 0 {
		return required == 0, nil
	}
	return false, undecidedError("a match of the port of a bridge")
}

// xtTarget runs a target of iptables.
func (w *walk) xtTarget(e any) (verdict, error) {
	switch e := e.(type) {
	case xt.NAT:
		return w.xtNAT(e)
	case xt.Redirect:
		return w.redirectTo(e.Ports, e.RandomPort)
	case xt.Netmap:
		return w.xtNAT(xt.NAT{Source: w.record.hook.isSourceNAT(), Addrs: e.Addrs, Netmap: true})
	case xt.Queue:
		return w.queue(e)
	case xt.ChangeSet:
		w.changedIPSets = true
		return verdictContinue, nil
	case xt.SetMark:
		w.setMark(w.frame.mark&^e.Mask ^ e.Value)
		return verdictContinue, nil
	case xt.ConnMark:
		if !w.conn.known {
			return verdictContinue, nil
		}
		if mark := e.Result(w.frame.mark, w.conn.mark); e.Mode == xt.ConnMarkRestore {
			w.setMark(mark)
		} else {
			w.conn.mark = mark
		}
		return verdictContinue, nil
	case xt.TProxy:
		return w.transparentProxy(e.To, verdict{kind: expr.VerdictDrop})
	case xt.Zone:
		return verdictBreak, undecidedError("a zone of connection tracking is set")
	}
	return verdictBreak, undecidedError(fmt.Sprintf("%T", e))
}

// matchOther runs the matches of iptables that few programs use.
func (w *walk) matchOther(e any) (bool, error) {
	switch e := e.(type) {
	case xt.Helper:
		return w.matchHelper(e)
	case xt.ConnLabel:
		return w.matchLabel(e), nil
	case xt.PacketType:
		kind, err := w.packetType()
		return kind == e.Type != e.Invert, err
	case xt.Length:
		if shortest := len(w.frame.network.bytes) + len(w.frame.transport.bytes); int(e.From) <= shortest && e.To == 1<<16-1 {
			return !e.Invert, nil
		}
		return false, undecidedError("a match of the length of the packet")
	case xt.CGroup:
		if !w.frame.fromNode {
			return false, nil
		}
		return false, undecidedError("a match of the group of the program that sends the packet")
	}
	return false, nil // xt.Never
}

// matchHelper is helper_mt of net/netfilter/xt_helper.c. A connection that no other one
// announced has no master.
func (w *walk) matchHelper(e xt.Helper) (bool, error) {
	if w.conn.status&statusExpected != 0 {
		return false, undecidedError("a match of the helper of a connection")
	}
	return e.Invert, nil
}

// statusExpected is the status of a connection that another one announced (IPS_EXPECTED).
const statusExpected = 1 << 0

// matchLabel is connlabel_mt of net/netfilter/xt_connlabel.c.
func (w *walk) matchLabel(e xt.ConnLabel) bool {
	at, bit := int(e.Bit/8), byte(1)<<(e.Bit%8)
	if !w.conn.known || at >= len(w.conn.labels) {
		return e.Invert
	}
	has := w.conn.labels[at]&bit != 0 || e.Set
	if e.Set {
		w.conn.labels[at] |= bit
	}
	return has != e.Invert
}

// packetType returns what the link delivers the packet as (PACKET_*).
func (w *walk) packetType() (uint8, error) {
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

// matchOwner is owner_mt of net/netfilter/xt_owner.c. A packet that the node sends is taken to
// be one of root.
func (w *walk) matchOwner(e xt.Owner) (bool, error) {
	switch {
	case !w.frame.fromNode:
		return e.Match&^e.Invert == 0, nil
	case e.Match&e.Invert&xt.OwnerSocket != 0:
		return false, nil
	}
	return (e.Match&xt.OwnerUser == 0 || e.HasRoot != (e.Invert&xt.OwnerUser != 0)) &&
		(e.Match&xt.OwnerGroup == 0 || e.HasRootGroup != (e.Invert&xt.OwnerGroup != 0)), nil
}
