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

func TestEachRepeatsAnInterruptedDump(t *testing.T) {
	for _, interrupts := range []int{0, maxListTries - 1} {
		k := &fakeKernel{entries: sample(), interrupts: interrupts}
		list, err := collect(k.open())
		if err != nil || !slices.Equal(brief(list), sample()) || len(k.asked) != interrupts+1 {
			t.Errorf("asked %q, walked past %v, %v, want %v", k.asked, list, err, sample())
		}
	}
	k := &fakeKernel{entries: sample(), interrupts: 100}
	if _, err := collect(k.open()); !errors.Is(err, unix.EINTR) || len(k.asked) != maxListTries {
		t.Errorf("of a walk that is always interrupted: %v, asked %d times, want an error after %d", err, len(k.asked), maxListTries)
	}
	_, err := collect((&fakeKernel{refuses: unix.EPERM}).open())
	checkError(t, err, unix.EPERM, "list flows", "CAP_NET_ADMIN")
}

func TestEachTranslatedSkipsOtherEntries(t *testing.T) {
	entries := sample()
	direct := entries[0]
	direct.Reply = direct.Original
	k := &fakeKernel{entries: append([]Entry{direct}, entries...), interrupts: 2}
	var got []Entry
	err := k.open().EachTranslated(func() { got = nil }, func(e Entry) { got = append(got, e) })
	if err != nil || !slices.Equal(brief(got), entries) || got[3].ID != 4 {
		t.Errorf("%v, %v, want %v", got, err, entries)
	}
}

func TestEachAnsweredWithoutKernelFilterAsksForEverything(t *testing.T) {
	entries := sample()
	for i := range entries {
		entries[i].Status = uint32(i%3) * statusSeenReply / 2 // 0, 1, 2: one in three was answered
	}
	k := &fakeKernel{entries: entries}
	c := k.open()
	for _, want := range [][]string{{"get", "get"}, {"get"}} { // first whether the kernel filters
		k.asked = nil
		var got []Entry
		err := c.EachAnswered(entries[2].Reply.Addr(), func() { got = nil }, func(e Entry) { got = append(got, e) })
		if err != nil || len(got) != 2 || got[0].ID != 2 || got[1].ID != 8 || !slices.Equal(k.asked, want) {
			t.Errorf("asked %q, %v, %v, want %q", k.asked, got, err, want)
		}
	}
}
