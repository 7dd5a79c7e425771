package conntrack

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strconv"
	"time"

	"github.com/mdlayher/netlink"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/simulate"
)

// Flows implements [simulate.Connections]. The flow of a given source port is found by its
// key; for any source port the kernel walks its table.
func (c *Conntrack) Flows(p simulate.Packet) (flows []simulate.Flow, err error) {
	conn, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.SendMessages(encodeFlows(p, !c.unfiltered)); err != nil {
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

// encodeFlows requests one flow, or all flows to the destination port.
//
// The kernel marks the answer that is one flow as part of a dump, which never ends. So a
// short dump is requested after it, which does.
func encodeFlows(p simulate.Packet, filtered bool) []netlink.Message {
	if p.FromPort == 0 {
		return []netlink.Message{encodeList(Query{Family: p.Family(), Protocol: p.Protocol}, p.To.Port(), filtered)}
	}
	family := families[p.Family()]
	return []netlink.Message{
		request(msgGet, 0, family, func(e *attr.Encoder) {
			encodeTuple(e, ctaTupleOrig, p.Protocol, netip.AddrPortFrom(p.From, p.FromPort), p.To)
		}),
		request(msgStatistics, netlink.Dump, family, nil),
	}
}

// A flow is a [simulate.Flow] with what identifies and describes it in conntrack.
type flow struct {
	simulate.Flow
	protocol model.Protocol
	state    byte
}

// matches reports whether the flow is of the packet's client, to the address and port that
// the packet is sent to.
func (f flow) matches(p simulate.Packet) bool {
	return f.protocol == p.Protocol && f.Client.Addr() == p.From && f.Requested == p.To &&
		(p.FromPort == 0 || p.FromPort == f.Client.Port())
}

// decodeFlow decodes an entry. It reports false for other messages, and for entries without
// addresses.
func decodeFlow(m netlink.Message) (f flow, ok bool) {
	if m.Header.Type&0xff != msgNew {
		return f, false
	}
	var d attr.Decoder
	for kind, value := range d.Attributes(d.Body(m.Data)) {
		switch kind {
		case ctaTupleOrig:
			t := decodeTuple(value)
			f.protocol = t.protocol
			f.Client, f.Requested = netip.AddrPortFrom(t.src, t.srcPort), netip.AddrPortFrom(t.dst, t.dstPort)
		case ctaTupleReply:
			t := decodeTuple(value)
			f.Endpoint, f.SeenSource = netip.AddrPortFrom(t.src, t.srcPort), netip.AddrPortFrom(t.dst, t.dstPort)
		case ctaStatus:
			f.Status = d.Uint32(value)
		case ctaMark:
			f.Mark = d.Uint32(value)
		case ctaLabels:
			copy(f.Labels[:], value)
		case ctaTimeout:
			f.Expires = time.Duration(d.Uint32(value)) * time.Second
		case ctaTimestamp:
			if start := d.Find(value, ctaTimestampStart); start != nil {
				f.Started = time.Unix(0, int64(d.Uint64(start)))
			}
		case ctaProtoInfo:
			f.state = decodeState(value)
		}
	}
	f.State, f.Reopens = f.stateName()
	return f, f.Client.Addr().IsValid() && f.Endpoint.Addr().IsValid()
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

// stateName returns the name of the flow's state, and whether a first packet begins a new
// connection in its place: a SYN does where TCP is closed.
func (f flow) stateName() (name string, reopens bool) {
	if f.IsOffloaded() {
		return "", false // the kernel does not send it
	}
	var names []string
	switch f.protocol {
	case model.TCP:
		names, reopens = tcpStates, f.state == tcpTimeWait || f.state == tcpClose
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
