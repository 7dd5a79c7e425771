package conntrack

import (
	"net/netip"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/simulate"
)

// flowMessage is an entry of a protocol in a state, as the kernel sends it.
func flowMessage(p model.Protocol, state byte) netlink.Message {
	e := Entry{Protocol: p, Original: netip.MustParseAddrPort("10.96.0.10:53"), Reply: netip.MustParseAddrPort("10.244.1.2:5353")}
	b := entry(e, 1)
	info := map[model.Protocol]uint16{model.TCP: ctaProtoInfoTCP, model.SCTP: ctaProtoInfoSCTP, model.UDP: 2}[p]
	b = appendAttribute(b, unix.NLA_F_NESTED|ctaProtoInfo, appendAttribute(nil, unix.NLA_F_NESTED|info, appendAttribute(nil, ctaInfoState, []byte{state})))
	b = appendAttribute(b, ctaStatus, []byte{0, 0, 1, 0xaa})
	b = appendAttribute(b, ctaTimeout, []byte{0, 0, 0, 25})
	b = appendAttribute(b, unix.NLA_F_NESTED|ctaTimestamp, appendAttribute(nil, ctaTimestampStart, []byte{0, 0, 0, 0, 0x3b, 0x9a, 0xca, 0}))
	return netlink.Message{Header: netlink.Header{Type: unix.NFNL_SUBSYS_CTNETLINK << 8}, Data: b}
}

func TestDecodeFlowReadsStateAndTimes(t *testing.T) {
	for _, tc := range []struct {
		protocol model.Protocol
		state    byte
		want     string
		reopens  bool
	}{
		{model.TCP, 3, "ESTABLISHED", false},
		{model.TCP, 7, "TIME_WAIT", true},
		{model.TCP, 8, "CLOSE", true},
		{model.TCP, 99, "99", false},
		{model.SCTP, 4, "ESTABLISHED", false},
		{model.UDP, 7, "", false},
	} {
		f, ok := decodeFlow(flowMessage(tc.protocol, tc.state))
		if !ok || f.State != tc.want || f.Reopens != tc.reopens {
			t.Errorf("%s in state %d: %q, reopens %t, want %q, %t", tc.protocol, tc.state, f.State, f.Reopens, tc.want, tc.reopens)
		}
		if f.Expires != 25*time.Second || f.Status != 0x1aa || !f.Started.Equal(time.Unix(1, 0)) || f.Endpoint != netip.MustParseAddrPort("10.244.1.2:5353") {
			t.Errorf("read as %+v", f.Flow)
		}
		p := simulate.Packet{From: f.Client.Addr(), To: f.Requested, Protocol: tc.protocol}
		if !f.matches(p) {
			t.Errorf("%s is none of %s", f.Flow.Client, p)
		}
		p.FromPort = f.Client.Port() + 1
		if f.matches(p) {
			t.Errorf("%s is one of %s", f.Flow.Client, p)
		}
	}
}

// TestOffloadedFlowHasNoState reads entries as the kernel sends them of connections in a
// flowtable: without state and time-out. Another bit means that a device has taken one.
func TestOffloadedFlowHasNoState(t *testing.T) {
	const inDevice = 1 << 15
	for _, p := range []model.Protocol{model.TCP, model.UDP} {
		for _, status := range []uint32{statusOffloaded, statusOffloaded | inDevice} {
			f, ok := decodeFlow(offloadedMessage(p, status))
			if !ok || !f.IsOffloaded() || f.State != "" || f.Reopens {
				t.Errorf("%s with status %x: %+v, read %t", p, status, f, ok)
			}
		}
	}
}

// offloadedMessage is an entry of a connection in a flowtable.
func offloadedMessage(p model.Protocol, status uint32) netlink.Message {
	e := Entry{Protocol: p, Original: netip.MustParseAddrPort("10.96.0.10:53"), Reply: netip.MustParseAddrPort("10.244.1.2:5353")}
	enc := attr.Encoder{Bytes: entry(e, 1)}
	enc.Uint32(ctaStatus, status|statusSeenReply|statusAssured|statusDstNAT)
	return netlink.Message{Header: netlink.Header{Type: unix.NFNL_SUBSYS_CTNETLINK << 8}, Data: enc.Bytes}
}

// FuzzFlow expects of any bytes to be read or left.
func FuzzFlow(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b)
	}
	f.Add(flowMessage(model.TCP, 3).Data)
	f.Fuzz(func(t *testing.T, b []byte) {
		e, ok := decodeFlow(netlink.Message{Header: netlink.Header{Type: unix.NFNL_SUBSYS_CTNETLINK << 8}, Data: b})
		if ok && (!e.Client.Addr().IsValid() || !e.Endpoint.Addr().IsValid()) {
			t.Errorf("read %+v", e)
		}
	})
}
