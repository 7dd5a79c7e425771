package conntrack

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
)

// flowMessage is an entry of a protocol in a state, as the kernel sends it.
func flowMessage(p model.Protocol, state byte, status uint32) []byte {
	e := Entry{Protocol: p, Original: netip.MustParseAddrPort("10.96.0.10:53"), Reply: netip.MustParseAddrPort("10.244.1.2:5353")}
	b := entry(e, 1)
	info := map[model.Protocol]uint16{model.TCP: ctaProtoInfoTCP, model.SCTP: ctaProtoInfoSCTP, model.UDP: 2}[p]
	b = appendAttribute(b, unix.NLA_F_NESTED|ctaProtoInfo, appendAttribute(nil, unix.NLA_F_NESTED|info, appendAttribute(nil, ctaInfoState, []byte{state})))
	b = appendAttribute(b, ctaStatus, binary.BigEndian.AppendUint32(nil, status))
	b = appendAttribute(b, ctaTimeout, []byte{0, 0, 0, 25})
	return appendAttribute(b, unix.NLA_F_NESTED|ctaTimestamp, appendAttribute(nil, ctaTimestampStart, []byte{0, 0, 0, 0, 0x3b, 0x9a, 0xca, 0}))
}

func TestDecodeReadsStateAndTimes(t *testing.T) {
	const none, replied, assured = 0, statusSeenReply, statusSeenReply | statusAssured
	for _, tc := range []struct {
		protocol              model.Protocol
		state                 byte
		status                uint32
		want                  string
		open, closed, aborted bool
	}{
		{model.TCP, 0, none, "NONE", false, false, false},
		{model.TCP, 1, none, "SYN_SENT", true, false, false},
		{model.TCP, 2, assured, "SYN_RECV", true, false, false},
		{model.TCP, 3, assured, "ESTABLISHED", true, false, false},
		{model.TCP, 4, assured, "FIN_WAIT", false, false, false},
		{model.TCP, 7, assured, "TIME_WAIT", false, true, false},
		{model.TCP, 8, replied, "CLOSE", false, true, false}, // reset by a client that only looked
		{model.TCP, 99, assured, "99", false, false, false},
		{model.SCTP, 4, assured, "ESTABLISHED", true, false, false},
		{model.SCTP, 7, assured, "SHUTDOWN_ACK_SENT", true, true, false},
		{model.SCTP, 1, replied, "CLOSED", true, true, true},
		{model.SCTP, 1, assured, "CLOSED", true, true, false},
		{model.SCTP, 1, none, "CLOSED", true, true, false},
		{model.UDP, 7, replied, "", true, false, false},
	} {
		f, _, ok := decode(flowMessage(tc.protocol, tc.state, tc.status))
		if !ok || f.State != tc.want || f.Open != tc.open || f.Closed != tc.closed || f.Aborted != tc.aborted ||
			f.Replied != (tc.status != none) {
			t.Errorf("%+v read as %+v", tc, f)
		}
		if f.Expires != 25*time.Second || f.Status != tc.status || !f.Started.Equal(time.Unix(1, 0)) || f.Reply != netip.MustParseAddrPort("10.244.1.2:5353") {
			t.Errorf("read as %+v", f)
		}
		client := netip.AddrPortFrom(f.Client.Addr(), 0)
		if !f.isFrom(tc.protocol, client, f.Original) {
			t.Errorf("%s is none of %s", f.Client, client)
		}
		client = netip.AddrPortFrom(f.Client.Addr(), f.Client.Port()+1)
		if f.isFrom(tc.protocol, client, f.Original) {
			t.Errorf("%s is one of %s", f.Client, client)
		}
	}
}

// recordedOffloaded are entries of connections in a flowtable, as Linux 6.1 sends them: without
// the state and timeout of TCP (net/netfilter/nf_conntrack_netlink.c, ctnetlink_dump_info).
var recordedOffloaded = map[model.Protocol]string{
	model.TCP: "020000003400018014000180080001000af40104080002000a6000011c000280050001000600000006000200a9f4000006000300005000003400028014000180080001000af40102" +
		"080002000af401041c0002800500010006000000060002001f90000006000300a9f4000008000300000041ae080008000000000008000c00c53af94308000b00000000021c0009800c0001" +
		"0000000000000000120c00020000000000000003d41c000a800c00010000000000000000110c00020000000000000004f9",
	model.UDP: "0a0000004c0001802c00018014000300fd00001002440001000000000000000414000400fd0000100096000000000000000000011c00028005000100110000000600020097e10000060003" +
		"00005000004c0002802c00018014000300fd00001002440001000000000000000214000400fd0000100244000100000000000000041c0002800500010011000000060002001f90000006" +
		"00030097e1000008000300000041aa080008000000000008000c00bbddea4d08000b00000000021c0009800c000100000000000000000f0c00020000000000000002f41c000a800c000100" +
		"000000000000000f0c00020000000000000004c5",
}

func TestOffloadedConnectionsAreOpenWithoutState(t *testing.T) {
	for p, recorded := range recordedOffloaded {
		data, err := hex.DecodeString(recorded)
		e, _, ok := decode(data)
		if err != nil || !ok || e.Protocol != p || !e.Offloaded || !e.Open || !e.Replied || e.Aborted || e.Closed || e.State != "" ||
			e.Expires != 0 {
			t.Errorf("read %+v, %v", e, err)
		}
	}
}

// seeds are entries as the kernel writes them, whole and cut, with a zone, and with
// garbage at each depth.
func seeds() [][]byte {
	var out [][]byte
	for i, e := range sample() {
		whole := entry(e, uint32(i))
		out = append(out, whole, whole[:20+4*i], appendAttribute(whole, ctaZone, []byte{0, uint8(i)}))
	}
	header := out[0][:attr.BodyHeaderLen]
	for _, garbage := range [][]byte{nil, {1}, {4, 0, 1, 0}, {3, 0, 1, 0}, {0, 0, 0, 0}, {255, 255, 1, 0}, {8, 0, 1, 0x80, 10, 0, 0}} {
		tuple := appendAttribute(nil, unix.NLA_F_NESTED|ctaTupleIP, garbage)
		tuple = appendAttribute(tuple, unix.NLA_F_NESTED|ctaTupleProto, garbage)
		for _, value := range [][]byte{garbage, tuple} {
			b := appendAttribute(header, unix.NLA_F_NESTED|ctaTupleOrig, value)
			out = append(out, appendAttribute(b, unix.NLA_F_NESTED|ctaTupleReply, value))
		}
		out = append(out, append(out[1], garbage...))
	}
	return out
}

// FuzzDecode expects any bytes to be read or left, and each entry that was read to have
// all that is needed to judge and to delete it.
func FuzzDecode(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b)
	}
	f.Add(flowMessage(model.TCP, 3, statusSeenReply))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, r, ok := decode(b)
		if !ok {
			return
		}
		key := r.key()
		if !e.Original.IsValid() || !e.Reply.IsValid() || len(key) == 0 || len(key)%4 != 0 || len(key) > len(b) {
			t.Errorf("read %v with key % x", e, key)
		}
		named := tuple{}
		var d attr.Decoder
		for kind, value := range d.Attributes([]byte(key)) {
			if kind == ctaTupleReply {
				named = decodeTuple(value)
			}
		}
		if named.src != e.Reply.Addr() || named.srcPort != e.Reply.Port() {
			t.Errorf("key % x is not the key of %v", key, e)
		}
		if m := encodeDelete(Entry{key: key}); string(m.Data[attr.BodyHeaderLen:]) != key {
			t.Errorf("% x deletes the key % x", m.Data, key)
		}
	})
}
