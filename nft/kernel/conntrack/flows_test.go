package conntrack

import (
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
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
			t.Errorf("read as %+v", f)
		}
		client := netip.AddrPortFrom(f.Client.Addr(), 0)
		if !f.matches(tc.protocol, client, f.Requested) {
			t.Errorf("%s is none of %s", f.Client, client)
		}
		client = netip.AddrPortFrom(f.Client.Addr(), f.Client.Port()+1)
		if f.matches(tc.protocol, client, f.Requested) {
			t.Errorf("%s is one of %s", f.Client, client)
		}
	}
}

// recordedOffloaded are entries of connections in a flowtable, as Linux 6.1 sends them: without
// the state and time-out of TCP (net/netfilter/nf_conntrack_netlink.c, ctnetlink_dump_info).
var recordedOffloaded = map[model.Protocol]string{
	model.TCP: "020000003400018014000180080001000af40104080002000a6000011c000280050001000600000006000200a9f4000006000300005000003400028014000180080001000af40102" +
		"080002000af401041c0002800500010006000000060002001f90000006000300a9f4000008000300000041ae080008000000000008000c00c53af94308000b00000000021c0009800c0001" +
		"0000000000000000120c00020000000000000003d41c000a800c00010000000000000000110c00020000000000000004f9",
	model.UDP: "0a0000004c0001802c00018014000300fd00001002440001000000000000000414000400fd0000100096000000000000000000011c00028005000100110000000600020097e10000060003" +
		"00005000004c0002802c00018014000300fd00001002440001000000000000000214000400fd0000100244000100000000000000041c0002800500010011000000060002001f90000006" +
		"00030097e1000008000300000041aa080008000000000008000c00bbddea4d08000b00000000021c0009800c000100000000000000000f0c00020000000000000002f41c000a800c000100" +
		"000000000000000f0c00020000000000000004c5",
}

func offloadedMessage(t *testing.T, p model.Protocol) netlink.Message {
	t.Helper()
	data, err := hex.DecodeString(recordedOffloaded[p])
	if err != nil {
		t.Fatal(err)
	}
	return netlink.Message{Header: netlink.Header{Type: unix.NFNL_SUBSYS_CTNETLINK << 8}, Data: data}
}

func TestOffloadedFlowHasNoState(t *testing.T) {
	for p := range recordedOffloaded {
		f, ok := decodeFlow(offloadedMessage(t, p))
		if !ok || f.Protocol != p || f.Status&statusOffloaded == 0 || f.State != "" || f.Expires != 0 || f.Reopens {
			t.Errorf("%s: %+v, read %t", p, f, ok)
		}
	}
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
