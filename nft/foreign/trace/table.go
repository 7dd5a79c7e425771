package trace

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/kernel/socket"
)

// TableName begins the name of a tracer's table.
const TableName = "kube-vmap-trace"

// Priorities of the table's chains. Conntrack reassembles fragments at -400, finds the
// connection at -200, and confirms new ones last (include/uapi/linux/netfilter_ipv4.h).
const (
	priorityFirst = math.MinInt32
	priorityBegin = -399
	priorityState = -199
	priorityLast  = math.MaxInt32 - 1
)

// Comments of the table's rules, by which their events are recognized.
const (
	commentBegin = "begin"
	commentReply = "answer"
	commentState = "connection is "
)

type chain struct {
	name string
	socket.Hook
	rules []rule
}

type rule struct {
	comment     string
	expressions []expr.Any
}

// hooks are the names of the hooks of IP in nft, by number.
var hooks = simulate.Hooks[:unix.NF_INET_POST_ROUTING+1]

func (c *Config) chains() []chain {
	var out []chain
	for _, hook := range [...]uint32{unix.NF_INET_PRE_ROUTING, unix.NF_INET_LOCAL_OUT} {
		out = append(out,
			chain{string("begin-" + hooks[hook]), socket.Hook{Number: hook, Priority: priorityBegin}, []rule{c.begin(hook)}},
			chain{string("state-" + hooks[hook]), socket.Hook{Number: hook, Priority: priorityState}, c.states()},
		)
	}
	for _, hook := range [...]uint32{unix.NF_INET_LOCAL_IN, unix.NF_INET_FORWARD, unix.NF_INET_POST_ROUTING} {
		out = append(out, chain{string("begin-" + hooks[hook]), socket.Hook{Number: hook, Priority: priorityFirst}, nil})
	}
	for hook, name := range hooks {
		out = append(out, chain{endPrefix + string(name), socket.Hook{Number: uint32(hook), Priority: priorityLast}, nil})
	}
	return out
}

// endPrefix is the prefix of the names of the chains that are last in their hook.
const endPrefix = "end-"

// begin returns the rule that marks matching packets for tracing. A packet that comes in by
// the loopback was marked when it was sent.
func (c *Config) begin(hook uint32) rule {
	match := matchPacket(c.Packet)
	if hook == unix.NF_INET_PRE_ROUTING {
		match = append(match, socket.Compare(meta(expr.MetaKeyIIF), nil, expr.CmpOpNeq, native(loopbackIndex))...)
	}
	if !c.Every {
		match = append(match, matchBegin(c.Packet.Protocol)...)
	}
	return rule{commentBegin, append(match, c.mark()...)}
}

// mark returns the expressions that count packets and mark them up to the rate.
func (c *Config) mark() []expr.Any {
	return []expr.Any{
		&expr.Counter{},
		&expr.Limit{Type: expr.LimitTypePkts, Rate: uint64(c.Rate), Unit: expr.LimitTimeSecond, Burst: c.Rate},
		&expr.Immediate{Register: unix.NFT_REG_1, Data: []byte{1}},
		&expr.Meta{Key: expr.MetaKeyNFTRACE, SourceRegister: true, Register: unix.NFT_REG_1},
	}
}

// states returns rules that match by the state of conntrack. They do nothing; the event of
// the rule that matches shows the state.
func (c *Config) states() []rule {
	var out []rule
	for _, s := range [...]struct {
		name string
		bit  uint32
	}{{"new", 8}, {"established", 2}, {"related", 4}, {"invalid", 1}, {"untracked", 64}} {
		state := &expr.Ct{Key: expr.CtKeySTATE, Register: unix.NFT_REG_1}
		out = append(out, rule{commentState + s.name, append(matchPacket(c.Packet),
			socket.Compare(state, native(s.bit), expr.CmpOpNeq, native(0))...)})
	}
	if c.Replies {
		out = append(out, rule{commentReply, append(matchReply(c.Packet), c.mark()...)})
	}
	return out
}

func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func equal(load expr.Any, want []byte) []expr.Any {
	return socket.Compare(load, nil, expr.CmpOpEq, want)
}

func meta(key expr.MetaKey) expr.Any { return &expr.Meta{Key: key, Register: unix.NFT_REG_1} }

func field(base expr.PayloadBase, offset, length uint32) expr.Any {
	return &expr.Payload{DestRegister: unix.NFT_REG_1, Base: base, Offset: offset, Len: length}
}

const network, transport = expr.PayloadBaseNetworkHeader, expr.PayloadBaseTransportHeader

type ends struct{ source, sourcePort, destination, destinationPort expr.Any }

// match compares addresses and ports with a packet's. The match that fails most often is
// first.
func (e ends) match(p simulate.Packet) []expr.Any {
	port := func(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }
	out := slices.Concat(equal(e.destination, p.To.Addr().AsSlice()),
		equal(meta(expr.MetaKeyL4PROTO), []byte{byte(p.Protocol)}), equal(e.destinationPort, port(p.To.Port())),
		equal(e.source, p.From.AsSlice()))
	if p.FromPort != 0 {
		out = append(out, equal(e.sourcePort, port(p.FromPort))...)
	}
	return out
}

func matchPacket(p simulate.Packet) []expr.Any {
	e := ends{field(network, 12, 4), field(transport, 0, 2), field(network, 16, 4), field(transport, 2, 2)}
	if p.To.Addr().Is6() {
		e.source, e.destination = field(network, 8, 16), field(network, 24, 16)
	}
	return e.match(p)
}

// matchBegin matches packets that open a connection; with UDP, any datagram.
func matchBegin(p model.Protocol) []expr.Any {
	switch p {
	case model.TCP:
		return socket.Compare(field(transport, tcpFlagsAt, 1), []byte{tcpSYN | tcpACK}, expr.CmpOpEq, []byte{tcpSYN})
	case model.SCTP:
		return equal(field(transport, sctpChunkAt, 1), []byte{sctpINIT})
	case model.UDP:
	}
	return nil
}

// matchReply matches replies. Translations change their addresses, so it matches by the
// original direction in conntrack.
func matchReply(p simulate.Packet) []expr.Any {
	original := func(key expr.CtKey) expr.Any {
		return &expr.Ct{Key: key, Register: unix.NFT_REG_1, OptDirection: true}
	}
	e := ends{
		original(expr.CtKeySRCIP), original(expr.CtKeyPROTOSRC), original(expr.CtKeyDSTIP), original(expr.CtKeyPROTODST),
	}
	if p.To.Addr().Is6() {
		e.source, e.destination = original(expr.CtKeySRCIP6), original(expr.CtKeyDSTIP6)
	}
	direction := &expr.Ct{Key: expr.CtKeyDIRECTION, Register: unix.NFT_REG_1}
	return append(equal(direction, []byte{expr.CtDirReply}), e.match(p)...)
}

// loopbackIndex is the index of the loopback in every network namespace
// (LOOPBACK_IFINDEX, include/net/flow.h).
const loopbackIndex = 1

// Headers of packets that open a connection (RFC 9293, 3.1; RFC 9260, 3.2).
const (
	tcpFlagsAt  = 13
	tcpSYN      = 0x02
	tcpACK      = 0x10
	sctpChunkAt = 12 // the type of the first chunk
	sctpINIT    = 1
)

func (c *Config) family() uint8 { return nft.FamilyNumber(model.FamilyOf(c.Packet.To.Addr())) }

// tableOwned is NFT_TABLE_F_OWNER (include/uapi/linux/netfilter/nf_tables.h).
const tableOwned = 0x2

// install adds the tracer's table, which its socket owns, so the kernel deletes it with the
// socket. Several tracers may run.
func (t *Tracer) install() error {
	t.table = fmt.Sprintf("%s-%d", TableName, t.own.PID())
	family := t.config.family()
	var b socket.Batch
	b.Add(unix.NFT_MSG_NEWTABLE, netlink.Create, family, func(e *attr.Encoder) {
		e.String(unix.NFTA_TABLE_NAME, t.table)
		e.Uint32(unix.NFTA_TABLE_FLAGS, tableOwned)
	})
	for _, ch := range t.config.chains() {
		b.AddChain(family, t.table, ch.name, &ch.Hook)
		for _, r := range ch.rules {
			b.AddRule(family, t.table, ch.name, r.comment, r.expressions...)
		}
	}
	if err := b.Commit(t.own, nil); err != nil {
		return fmt.Errorf("add table %s: %w", t.table, err)
	}
	return nil
}
