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
)

// A Flow is an entry with what a simulation of its packets needs.
type Flow struct {
	Protocol   model.Protocol
	Client     netip.AddrPort
	Requested  netip.AddrPort
	Endpoint   netip.AddrPort // where it is sent to
	SeenSource netip.AddrPort // as the endpoint sees it
	Status     uint32         // IPS_*
	Mark       uint32
	Labels     [16]byte
	State      string        // of TCP or SCTP, as conntrack -L prints it; empty if offloaded
	Expires    time.Duration // if no packet comes; zero if offloaded
	Started    time.Time     // if the kernel knows (net.netfilter.nf_conntrack_timestamp)
	Reopens    bool          // whether a first packet begins a new connection
	state      byte
}

// Flows returns the flows of a client to the address and port that it sends to. The flow of a
// given source port is found by its key; without one the kernel walks its table.
func (c *Conntrack) Flows(p model.Protocol, client, to netip.AddrPort) (flows []Flow, err error) {
	conn, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.SendMessages(encodeFlows(p, client, to, !c.unfiltered)); err != nil {
		return nil, flowsError(p, client, err)
	}
	for m, err := range conn.ReceiveIter() {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case isUnsupported(err) && !c.unfiltered && client.Port() == 0:
			c.unfiltered = true
			return c.Flows(p, client, to)
		case err != nil:
			return nil, flowsError(p, client, err)
		}
		if f, ok := decodeFlow(m); ok && f.matches(p, client, to) {
			flows = append(flows, f)
		}
	}
	return flows, nil
}

func flowsError(p model.Protocol, client netip.AddrPort, err error) error {
	return fmt.Errorf("list %s flows from %s: %w", p, client.Addr(), explainError(err))
}

// encodeFlows requests one flow, or all flows to the destination port.
//
// The kernel marks the answer that is one flow as part of a dump, which never ends. So a
// short dump is requested after it, which does.
func encodeFlows(p model.Protocol, client, to netip.AddrPort, filtered bool) []netlink.Message {
	family := model.FamilyOf(to.Addr())
	if client.Port() == 0 {
		return []netlink.Message{encodeList(Query{Family: family, Protocol: p}, to.Port(), filtered)}
	}
	return []netlink.Message{
		request(msgGet, 0, families[family], func(e *attr.Encoder) { encodeTuple(e, ctaTupleOrig, p, client, to) }),
		request(msgStatistics, netlink.Dump, families[family], nil),
	}
}

func (f *Flow) matches(p model.Protocol, client, to netip.AddrPort) bool {
	return f.Protocol == p && f.Client.Addr() == client.Addr() && f.Requested == to &&
		(client.Port() == 0 || client.Port() == f.Client.Port())
}

// IsOffloaded reports whether packets of the flow take a flowtable, instead of rules.
func (f *Flow) IsOffloaded() bool { return f.Status&statusOffloaded != 0 }

// decodeFlow decodes an entry. It reports false for other messages, and for entries without
// addresses.
func decodeFlow(m netlink.Message) (f Flow, ok bool) {
	if m.Header.Type&0xff != msgNew {
		return f, false
	}
	var d attr.Decoder
	for kind, value := range d.Attributes(d.Body(m.Data)) {
		switch kind {
		case ctaTupleOrig:
			t := decodeTuple(value)
			f.Protocol = t.protocol
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
		"NONE", "SYN_SENT", "SYN_RECV", "ESTABLISHED", "FIN_WAIT", "CLOSE_WAIT", "LAST_ACK", "TIME_WAIT", "CLOSE",
		"SYN_SENT2",
	}
	sctpStates = []string{
		"NONE", "CLOSED", "COOKIE_WAIT", "COOKIE_ECHOED", "ESTABLISHED",
		"SHUTDOWN_SENT", "SHUTDOWN_RECD", "SHUTDOWN_ACK_SENT", "HEARTBEAT_SENT",
	}
)

// stateName returns the name of the flow's state, and whether a first packet begins a new
// connection in its place: a SYN does where TCP is closed.
func (f *Flow) stateName() (name string, reopens bool) {
	if f.IsOffloaded() {
		return "", false // the kernel does not send it
	}
	var names []string
	switch f.Protocol {
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
