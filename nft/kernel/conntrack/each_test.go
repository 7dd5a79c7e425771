package conntrack

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// collect walks the table.
func collect(c *Conntrack) (list []Entry, err error) {
	err = c.Each(func() { list = nil }, func(e Entry) { list = append(list, e) })
	return list, err
}

func TestAWalkSeesEveryEntryOnceInOneQuestion(t *testing.T) {
	k := &fakeKernel{entries: sample()}
	list, err := collect(k.open())
	if err != nil || !slices.Equal(list, sample()) {
		t.Errorf("walked past %v, %v, want %v", list, err, sample())
	}
	if !slices.Equal(k.asked, []string{"get"}) {
		t.Errorf("asked %q", k.asked)
	}
}

func TestAnInterruptedWalkBeginsAgain(t *testing.T) {
	k := &fakeKernel{entries: sample(), interrupts: listTries - 1}
	list, err := collect(k.open())
	if err != nil || !slices.Equal(list, sample()) {
		t.Errorf("walked past %v, %v, want %v", list, err, sample())
	}
	k.interrupts, k.asked = 100, nil
	if _, err := collect(k.open()); !errors.Is(err, unix.EINTR) || len(k.asked) != listTries {
		t.Errorf("of a walk that is always interrupted: %v, asked %d times, want an error after %d", err, len(k.asked), listTries)
	}
}

func TestErrorsOfAWalkSayWhatToDo(t *testing.T) {
	_, err := collect((&fakeKernel{refuses: unix.EPERM}).open())
	checkError(t, err, unix.EPERM, "list flows", "CAP_NET_ADMIN")
}
