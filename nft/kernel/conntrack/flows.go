package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strconv"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/simulate"
)

// More of what ctnetlink calls things.
const (
	msgNew = 0 // IPCTNL_MSG_CT_NEW

	ctaStatus    = 3
	ctaProtoInfo = 4
	ctaTimeout   = 7
	ctaMark      = 8
	ctaTimestamp = 20

	ctaProtoInfoTCP  = 1
	ctaProtoInfoSCTP = 3
	ctaInfoState     = 1 // of TCP and of SCTP

	ctaTimestampStart = 1
)

// Flows implements [simulate.Connections]. One of a named port is found at once; for
// any port the kernel goes through its table.
func (c *Conntrack) Flows(p simulate.Packet) (flows []simulate.Flow, err error) {
	requests, err := encodeFlows(p, !c.unfiltered)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	conn, err := c.dial()
	if err != nil {
		return nil, missingSocket(err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.SendMessages(requests); err != nil {
		return nil, flowsError(p, err)
	}
	for m, err := range conn.ReceiveIter() {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case isUnsupported(err) && !c.unfiltered && p.FromPort == 0:
			c.unfiltered = true
			return c.Flows(p)
		case err != nil:
			return nil, flowsError(p, err)
		}
		if f, ok := decodeFlow(m); ok && f.matches(p) {
			flows = append(flows, f.Flow)
		}
	}
	return flows, nil
}

func flowsError(p simulate.Packet, err error) error {
	return fmt.Errorf("list %s flows from %s: %w", p.Protocol, p.From, explainError(err))
}

// msgStatistics asks for figures of each CPU (IPCTNL_MSG_CT_GET_STATS_CPU).
const msgStatistics = 4

// encodeFlows asks for one flow, or for all of the port that is asked for.
//
// The kernel marks the answer that is one flow as part of several, of which it sends
// no other and no end. So something short is asked for behind it, whose end is told.
func encodeFlows(p simulate.Packet, filtered bool) ([]netlink.Message, error) {
	if p.FromPort == 0 {
		m, err := encodeList(Query{Family: p.Family(), Protocol: p.Protocol}, p.To.Port(), filtered)
		return []netlink.Message{m}, err
	}
	tuple := appendTuple(nil, p)
	return []netlink.Message{
		message(msgGet, 0, p.Family(), appendAttribute(nil, unix.NLA_F_NESTED|ctaTupleOrig, tuple)),
		message(msgStatistics, netlink.Dump, p.Family(), nil),
	}, nil
}

func appendTuple(b []byte, p simulate.Packet) []byte {
	from, to := uint16(ctaIPv4Src), uint16(ctaIPv4Dst)
	if p.Family() == model.IPv6 {
		from, to = ctaIPv6Src, ctaIPv6Dst
	}
	addresses := appendAttribute(appendAttribute(nil, from, p.From.AsSlice()), to, p.To.Addr().AsSlice())
	proto := appendAttribute(nil, ctaProtoNum, []byte{byte(p.Protocol)})
	proto = appendAttribute(proto, ctaProtoSrcPort, binary.BigEndian.AppendUint16(nil, p.FromPort))
	proto = appendAttribute(proto, ctaProtoDstPort, binary.BigEndian.AppendUint16(nil, p.To.Port()))
	b = appendAttribute(b, unix.NLA_F_NESTED|ctaTupleIP, addresses)
	return appendAttribute(b, unix.NLA_F_NESTED|ctaTupleProto, proto)
}

// flow is a flow with its protocol.
type flow struct {
	simulate.Flow
	protocol model.Protocol
	state    byte
}

// matches reports whether it is what the packet's client has, at the address and port that
// the packet asks for.
func (f flow) matches(p simulate.Packet) bool {
	return f.protocol == p.Protocol && f.Client.Addr() == p.From && f.Requested == p.To &&
		(p.FromPort == 0 || p.FromPort == f.Client.Port())
}

// decodeFlow reads an entry.
func decodeFlow(m netlink.Message) (f flow, ok bool) {
	if len(m.Data) < nfHeaderLen || m.Header.Type&0xff != msgNew {
		return f, false
	}
	for kind, value := range attributes(m.Data[nfHeaderLen:]) {
		switch kind {
		case ctaTupleOrig:
			t := decodeTuple(value)
			f.protocol = t.protocol
			f.Client, f.Requested = netip.AddrPortFrom(t.src, t.srcPort), netip.AddrPortFrom(t.dst, t.dstPort)
		case ctaTupleReply:
			t := decodeTuple(value)
			f.Endpoint, f.SeenSource = netip.AddrPortFrom(t.src, t.srcPort), netip.AddrPortFrom(t.dst, t.dstPort)
		case ctaStatus:
			f.Status = number(value)
		case ctaMark:
			f.Mark = number(value)
		case ctaTimeout:
			f.Expires = time.Duration(number(value)) * time.Second
		case ctaTimestamp:
			f.Started = decodeStart(value)
		case ctaProtoInfo:
			f.state = decodeState(value)
		}
	}
	f.State, f.Reopens = f.stateName()
	return f, f.Client.Addr().IsValid() && f.Endpoint.Addr().IsValid()
}

func number(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func decodeStart(b []byte) (at time.Time) {
	for kind, value := range attributes(b) {
		if kind == ctaTimestampStart && len(value) == 8 {
			at = time.Unix(0, int64(binary.BigEndian.Uint64(value)))
		}
	}
	return at
}

func decodeState(b []byte) (state byte) {
	for kind, value := range attributes(b) {
		if kind != ctaProtoInfoTCP && kind != ctaProtoInfoSCTP {
			continue
		}
		for kind, value := range attributes(value) {
			if kind == ctaInfoState && len(value) == 1 {
				state = value[0]
			}
		}
	}
	return state
}

// Names of states (net/netfilter/nf_conntrack_proto_{tcp,sctp}.c).
var (
	tcpStates = []string{
		"NONE", "SYN_SENT", "SYN_RECV", "ESTABLISHED", "FIN_WAIT", "CLOSE_WAIT", "LAST_ACK", "TIME_WAIT", "CLOSE", "SYN_SENT2",
	}
	sctpStates = []string{
		"NONE", "CLOSED", "COOKIE_WAIT", "COOKIE_ECHOED", "ESTABLISHED", "SHUTDOWN_SENT", "SHUTDOWN_RECD", "SHUTDOWN_ACK_SENT", "HEARTBEAT_SENT",
	}
)

// stateName is the flow's state in words, and whether a first packet begins a connection
// of its own in its place: a SYN where TCP is closed does.
func (f flow) stateName() (name string, reopens bool) {
	const timeWait, closed = 7, 8
	var names []string
	switch f.protocol {
	case model.TCP:
		names, reopens = tcpStates, f.state == timeWait || f.state == closed
	case model.SCTP:
		names = sctpStates
	case model.UDP:
		return "", false
	}
	if int(f.state) >= len(names) {
		return strconv.Itoa(int(f.state)), reopens
	}
	return names[f.state], reopens
}
