package livenode

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/kernel/socket"
)

// A fibResult is a reply to RTM_GETROUTE.
type fibResult struct {
	kind   uint8 // RTN_*
	hops   []simulate.NextHop
	source netip.Addr // RTA_PREFSRC
}

// routeHeader and hopHeader are the lengths of struct rtmsg and struct rtnexthop.
const routeHeader, hopHeader = 12, 8

// ask looks up a route. With [unix.RTM_F_FIB_MATCH] the reply is the entry of the routing table,
// with all its next hops, and not what the kernel makes of it.
func (n *Network) ask(q simulate.RouteQuery, flags uint32) (r fibResult, err error) {
	f := model.FamilyOf(q.To)
	var e attr.Encoder
	e.Bytes = append(e.Bytes, nft.FamilyNumber(f), uint8(q.To.BitLen()), 0, q.TOS, 0, 0, 0, 0)
	e.Bytes = binary.NativeEndian.AppendUint32(e.Bytes, flags)
	e.Data(unix.RTA_DST, q.To.AsSlice())
	if q.From.IsValid() {
		e.Bytes[2] = uint8(q.From.BitLen())
		e.Data(unix.RTA_SRC, q.From.AsSlice())
	}
	for kind, number := range map[uint16]uint32{
		unix.RTA_IIF: uint32(q.In.Index), unix.RTA_OIF: uint32(q.Out.Index), unix.RTA_MARK: q.Mark,
	} {
		if number != 0 {
			e.NativeUint32(kind, number)
		}
	}
	e.NativeUint32(unix.RTA_UID, 0) // as of packets that are forwarded, and of programs of root
	switch {
	case q.Protocol == model.TCP || q.Protocol == model.UDP:
		e.Uint8(unix.RTA_IP_PROTO, uint8(q.Protocol))
		e.Uint16(unix.RTA_SPORT, q.FromPort)
		e.Uint16(unix.RTA_DPORT, q.ToPort)
	case f == model.IPv4: // without a protocol the kernel takes UDP
		e.Uint8(unix.RTA_IP_PROTO, unix.IPPROTO_ICMP)
	}
	request := netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETROUTE, Flags: netlink.Request}, Data: e.Bytes,
	}
	err = socket.Ask(n.routes, request, func(m netlink.Message) error {
		var d attr.Decoder
		if len(m.Data) < routeHeader {
			return attr.ErrTruncated
		}
		r.kind = m.Data[7]
		r.decode(&d, m.Data[routeHeader:])
		return cmp.Or(d.Err(), e.Err())
	})
	if err != nil {
		return r, fmt.Errorf("find a route to %s: %w", q.To, n.routeError(err, q))
	}
	for i := range r.hops {
		out := &r.hops[i].Out
		if out.Name, err = n.linkName(out.Index); err == nil && out.Name == "" {
			err = fmt.Errorf("interface %d, which a route has, has just been removed", out.Index)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// nextHop returns the first next hop towards an address: a gateway, or the address itself.
func (r *fibResult) nextHop(to netip.Addr) netip.Addr {
	if len(r.hops) > 0 && r.hops[0].Via.IsValid() {
		return r.hops[0].Via
	}
	return to
}

func (r *fibResult) decode(d *attr.Decoder, attributes []byte) {
	single := decodeHop(d, attributes)
	if single.Out.Index != 0 {
		r.hops = append(r.hops, single)
	}
	for kind, value := range d.Attributes(attributes) {
		switch kind {
		case unix.RTA_PREFSRC:
			r.source, _ = netip.AddrFromSlice(value)
		case unix.RTA_MULTIPATH:
			r.decodeHops(d, value)
		}
	}
}

// decodeHops decodes structs rtnexthop, without those that have no link.
func (r *fibResult) decodeHops(d *attr.Decoder, list []byte) {
	for len(list) >= hopHeader {
		n := min(max(int(binary.NativeEndian.Uint16(list)), hopHeader), len(list))
		hop := decodeHop(d, list[hopHeader:n])
		hop.Out.Index, hop.Weight = int(binary.NativeEndian.Uint32(list[4:])), int(list[3])+1
		if list[2]&(unix.RTNH_F_DEAD|unix.RTNH_F_LINKDOWN) == 0 {
			r.hops = append(r.hops, hop)
		}
		list = list[min((n+3)&^3, len(list)):]
	}
}

func decodeHop(d *attr.Decoder, attributes []byte) (hop simulate.NextHop) {
	hop.Weight = 1
	for kind, value := range d.Attributes(attributes) {
		switch {
		case kind == unix.RTA_OIF:
			hop.Out.Index = int(d.NativeUint32(value))
		case kind == unix.RTA_GATEWAY:
			hop.Via, _ = netip.AddrFromSlice(value)
		case kind == unix.RTA_VIA && len(value) > 2: // of another family, which precedes it
			hop.Via, _ = netip.AddrFromSlice(value[2:])
		}
	}
	return hop
}

// Route implements [simulate.Network].
func (n *Network) Route(q simulate.RouteQuery) (r simulate.Route, err error) {
	if err := n.checkRules(&q); err != nil {
		return r, err
	}
	if q.Lookup {
		return n.lookup(q)
	}
	found, err := n.ask(q, 0)
	if err != nil {
		return r, err
	}
	r.Local = deliversLocally(int(found.kind), q.In)
	if len(found.hops) > 0 {
		r.Out, r.Via = found.hops[0].Out, found.hops[0].Via
	}
	if r.Local {
		return r, nil
	}
	if q.In.Index != 0 && q.To.Is6() && !n.forwardsIPv6(q.In.Name) {
		return r, fmt.Errorf("find a route to %s: %w: the node does not forward (net.ipv6.conf.all.forwarding)",
			q.To, simulate.ErrNoRoute)
	}
	if !n.hashIsKnown(q) {
		if entry, err := n.ask(q, unix.RTM_F_FIB_MATCH); err == nil && len(entry.hops) > 1 {
			r.Hops = entry.hops
		}
	}
	return r, nil
}

// lookup only looks up the routing table, as rules do that check sources. The kernel reports that
// for packets that come in by an interface, if the node has their source not itself; of these it
// also checks the source. Without rules of routing the source makes no difference.
func (n *Network) lookup(q simulate.RouteQuery) (r simulate.Route, err error) {
	policy, err := n.policy(model.FamilyOf(q.To))
	if err != nil {
		return r, err
	}
	const loopback = 1
	if q.To.Is4() {
		kind := uint32(unix.RTN_LOCAL)
		if policy.custom && q.From.IsValid() {
			if kind, err = n.AddressType(q.From); err != nil {
				return r, err
			}
		}
		switch {
		case !policy.custom:
			q.From, q.In = netip.Addr{}, simulate.Link{}
		case kind == unix.RTN_LOCAL:
			q.In = simulate.Link{}
		case q.In.Index == 0:
			q.In.Index = loopback
		}
	} else if q.In.Index == 0 {
		q.In.Index = loopback
	}
	found, err := n.ask(q, unix.RTM_F_FIB_MATCH)
	if q.To.Is4() && q.In.Index != 0 && errors.Is(err, simulate.ErrNoRoute) && !errors.Is(err, unix.ENETUNREACH) {
		return r, simulate.Undecided("a lookup of a source, with rules of routing and a kernel that checks sources itself")
	}
	if err != nil {
		return r, err
	}
	r.Local = found.kind == unix.RTN_LOCAL || q.To.Is6() && found.kind == unix.RTN_ANYCAST
	if r.Hops = found.hops; len(r.Hops) > 0 {
		r.Out, r.Via = r.Hops[0].Out, r.Hops[0].Via
	}
	return r, nil
}

// hashIsKnown reports whether the kernel picks the same of several next hops for the packet as for
// the query. The hash of an IPv6 packet has its flow label, and one of ports may come
// from the network card.
func (n *Network) hashIsKnown(q simulate.RouteQuery) bool {
	return q.To.Is4() && q.From.IsValid() && n.Sysctl("net/ipv4/fib_multipath_hash_policy") == "0"
}

// forwardsIPv6 reports whether the node forwards packets that come in by an interface
// (ip6_forward); since Linux 6.17 that is a setting of the interface, too.
func (n *Network) forwardsIPv6(in string) bool {
	return n.Sysctl("net/ipv6/conf/all/forwarding") != "0" ||
		n.Sysctl("net/ipv6/conf/"+in+"/force_forwarding") == "1"
}

// A policy is what rules of routing look at: whether any is not of every node, has a source port or a
// type of service, looks at ports of SCTP, or makes the kernel dissect packets that have no socket
// (fib_rule_requires_fldissect).
type policy struct{ custom, source, tos, sctp, dissects bool }

func (n *Network) policy(f model.Family) (policy, error) {
	if n.policies[f] != nil {
		return *n.policies[f], nil
	}
	list, err := n.handle.RuleList(int(nft.FamilyNumber(f)))
	if err != nil {
		return policy{}, fmt.Errorf("list the rules of routing: %w", err)
	}
	var p policy
	for _, r := range list {
		const local, main, others = 0, 32766, 32767 // of every node
		p.custom = p.custom || r.Priority != local && r.Priority != main && r.Priority != others
		ports := r.IPProto > 0 || r.Dport != nil || r.Sport != nil
		p.source = p.source || r.Sport != nil
		p.tos = p.tos || r.Tos != 0
		p.sctp = p.sctp || ports && (r.IPProto <= 0 || r.IPProto == unix.IPPROTO_SCTP)
		p.dissects = p.dissects || ports && r.IifName != "lo"
	}
	n.policies[f] = &p
	return p, nil
}

// checkRules returns an error if rules of routing look at what the query does not have. It removes
// what the kernel does not look at.
func (n *Network) checkRules(q *simulate.RouteQuery) error {
	p, err := n.policy(model.FamilyOf(q.To))
	switch {
	case err != nil:
		return err
	case q.Again && !p.dissects:
		q.Protocol, q.FromPort, q.ToPort = 0, 0, 0
	case q.Protocol == model.SCTP && p.sctp:
		return simulate.Undecided("rules of routing with a port of SCTP, which the kernel does not look up")
	case p.source && q.Protocol != 0 && q.FromPort == 0 && !q.Lookup:
		return simulate.Undecided("a rule of routing with a source port, which is not known")
	case p.tos && q.UnknownTOS:
		return simulate.Undecided("a rule of routing with the type of service, which a rule has set")
	}
	return nil
}

// deliversLocally reports whether the node delivers packets of a type of route to itself. Of
// broadcasts these are all that come in, because it forwards none.
func deliversLocally(kind int, in simulate.Link) bool {
	return kind == unix.RTN_LOCAL || kind == unix.RTN_ANYCAST || kind == unix.RTN_BROADCAST && in.Index != 0
}

// notForwarding returns the sysctl by which the node forwards no IPv4 packets that come in by an
// interface (ip_route_input_slow); empty if it does.
func (n *Network) notForwarding(in string) string {
	switch {
	case n.Sysctl("net/ipv4/conf/"+in+"/forwarding") != "0":
		return ""
	case n.Sysctl("net/ipv4/ip_forward") == "0":
		return "net.ipv4.ip_forward"
	}
	return "net.ipv4.conf." + strings.ReplaceAll(in, ".", "/") + ".forwarding"
}

// routeError returns [simulate.ErrNoRoute] with the reason and the kernel's error, if that is what
// the error means.
func (n *Network) routeError(err error, q simulate.RouteQuery) error {
	var reason string
	off := func() string { return n.notForwarding(q.In.Name) }
	switch {
	case errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EINVAL) && q.In.Index != 0:
		reason = fmt.Sprintf(" for a packet from %s that comes in by %s: the kernel does not accept that source "+
			"there (rp_filter), or drops packets to that destination", q.From, q.In.Name)
	case errors.Is(err, unix.EHOSTUNREACH) && q.In.Index != 0 && off() != "":
		reason = fmt.Sprintf(": the node does not forward what comes in by %s (%s is 0)", q.In.Name, off())
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EACCES),
		errors.Is(err, unix.EINVAL), errors.Is(err, unix.EAGAIN):
		reason = " on this node"
	default:
		return err
	}
	return fmt.Errorf("%w%s (%w)", simulate.ErrNoRoute, reason, err)
}
