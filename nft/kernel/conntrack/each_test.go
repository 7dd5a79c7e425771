package conntrack

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
)

// collect walks the table.
func collect(c *Conntrack) (list []Entry, err error) {
	err = c.Each(func() { list = nil }, func(e Entry) { list = append(list, e) })
	return list, err
}

func TestEachReadsAllEntriesInOneDump(t *testing.T) {
	k := &fakeKernel{entries: sample()}
	list, err := collect(k.open())
	if err != nil || !slices.Equal(list, sample()) {
		t.Errorf("walked past %v, %v, want %v", list, err, sample())
	}
	if !slices.Equal(k.asked, []string{"get"}) {
		t.Errorf("asked %q", k.asked)
	}
}

func TestEachRepeatsAnInterruptedDump(t *testing.T) {
	k := &fakeKernel{entries: sample(), interrupts: maxListTries - 1}
	list, err := collect(k.open())
	if err != nil || !slices.Equal(list, sample()) {
		t.Errorf("walked past %v, %v, want %v", list, err, sample())
	}
	k.interrupts, k.asked = 100, nil
	if _, err := collect(k.open()); !errors.Is(err, unix.EINTR) || len(k.asked) != maxListTries {
		t.Errorf("of a walk that is always interrupted: %v, asked %d times, want an error after %d", err, len(k.asked), maxListTries)
	}
}

func TestEachErrorsNameTheCause(t *testing.T) {
	_, err := collect((&fakeKernel{refuses: unix.EPERM}).open())
	checkError(t, err, unix.EPERM, "list flows", "CAP_NET_ADMIN")
}

func TestClosedStatesAreTheLastOnes(t *testing.T) {
	of := func(protocol uint16, state byte) []byte {
		info := appendAttribute(nil, unix.NLA_F_NESTED|protocol, appendAttribute(nil, ctaInfoState, []byte{state}))
		return appendAttribute(make([]byte, attr.BodyHeaderLen), unix.NLA_F_NESTED|ctaProtoInfo, info)
	}
	for state, name := range tcpStates {
		if got, want := isClosed(model.TCP, of(ctaProtoInfoTCP, byte(state))), name == "TIME_WAIT" || name == "CLOSE"; got != want {
			t.Errorf("TCP in %s is over: %t", name, got)
		}
	}
	for state, name := range sctpStates {
		if got, want := isClosed(model.SCTP, of(ctaProtoInfoSCTP, byte(state))), name == "CLOSED" || name == "SHUTDOWN_ACK_SENT"; got != want {
			t.Errorf("SCTP in %s is over: %t", name, got)
		}
	}
	if isClosed(model.UDP, make([]byte, attr.BodyHeaderLen)) {
		t.Error("UDP is over")
	}
}
