package conntrack

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
)

func TestEachTranslatedSkipsOtherEntries(t *testing.T) {
	entries := sample()
	direct := entries[0]
	direct.Reply = direct.Original
	k := &fakeKernel{entries: append([]Entry{direct}, entries...), interrupts: 2}
	var got []Translated
	err := k.open().EachTranslated(func() { got = nil }, func(e Translated) { got = append(got, e) })
	if err != nil || len(got) != len(entries) {
		t.Fatalf("%d entries, %v, want %d", len(got), err, len(entries))
	}
	for i, e := range got {
		open := e.Protocol != model.TCP // these have no state
		if e.Entry != entries[i] || e.ID != uint32(i+1) || e.Open != open {
			t.Errorf("entry %d is %+v, want %v", i, e, entries[i])
		}
	}
}

func TestEachTranslatedErrorsNameTheCause(t *testing.T) {
	err := (&fakeKernel{refuses: unix.EPERM}).open().EachTranslated(func() {}, func(Translated) {})
	checkError(t, err, unix.EPERM, "list flows", "CAP_NET_ADMIN")
}

func TestOpenStatesAreTheFirstOnes(t *testing.T) {
	open := []string{"SYN_SENT", "SYN_RECV", "ESTABLISHED"}
	for state, name := range tcpStates {
		info := appendAttribute(nil, unix.NLA_F_NESTED|ctaProtoInfoTCP, appendAttribute(nil, ctaInfoState, []byte{byte(state)}))
		data := appendAttribute(make([]byte, attr.BodyHeaderLen), unix.NLA_F_NESTED|ctaProtoInfo, info)
		if got, want := isOpen(model.TCP, data), slices.Contains(open, name); got != want {
			t.Errorf("TCP in %s is open: %t", name, got)
		}
	}
}

func TestTranslatedEntriesShowHowTheEndpointResponded(t *testing.T) {
	const none, replied, assured = 0, statusSeenReply, statusSeenReply | statusAssured
	for _, test := range []struct {
		protocol         model.Protocol
		state            byte
		status           uint32
		replied, aborted bool
	}{
		{model.TCP, tcpSynSent, none, false, false},
		{model.TCP, tcpEstablished, assured, true, false},
		{model.TCP, tcpClose, replied, true, false}, // reset by a client that only looked
		{model.UDP, 0, none, false, false},
		{model.UDP, 0, replied, true, false},
		{model.SCTP, sctpClosed, replied, true, true},
		{model.SCTP, sctpClosed, assured, true, false},
		{model.SCTP, sctpClosed, none, false, false},
	} {
		kind := map[model.Protocol]uint16{model.TCP: ctaProtoInfoTCP, model.SCTP: ctaProtoInfoSCTP}[test.protocol]
		e := attr.Encoder{Bytes: make([]byte, attr.BodyHeaderLen)}
		e.Nested(ctaProtoInfo, func() { e.Nested(kind, func() { e.Uint8(ctaInfoState, test.state) }) })
		got := translated(Entry{Protocol: test.protocol}, rawEntry{id: make([]byte, 4), status: test.status}, e.Bytes)
		if got.Replied != test.replied || got.Aborted != test.aborted {
			t.Errorf("%s in state %d with status %d: %+v", test.protocol, test.state, test.status, got)
		}
	}
}

func TestOffloadedConnectionsAreOpen(t *testing.T) {
	for p := range recordedOffloaded {
		data := offloadedMessage(t, p).Data
		e, raw, known := decode(data)
		got := translated(e, raw, data)
		if !known || e.Protocol != p || !got.Offloaded || !got.Open || !got.Replied || got.Aborted || isClosed(p, data) {
			t.Errorf("read %+v", got)
		}
	}
}
