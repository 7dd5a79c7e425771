package conntrack

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

// Tests that need no fault are in integration/flows, on a real kernel.

// fakeKernel is a connection tracking with faults.
type fakeKernel struct {
	entries []Entry
	// interrupts is how many dumps are interrupted.
	interrupts int
	// refuses is the error sent in reply to any request.
	refuses unix.Errno
	// asked are requests, such as "get" or "delete".
	asked []string
}

// open is a Conntrack of the fake.
func (k *fakeKernel) open() *Conntrack {
	c := New(Config{})
	c.dial = func() (*netlink.Conn, error) { return nltest.Dial(k.serve), nil }
	return c
}

// serve filters nothing.
func (k *fakeKernel) serve(requests []netlink.Message) ([]netlink.Message, error) {
	if len(requests) == 0 {
		return nil, errors.New("no request")
	}
	m := requests[0]
	if m.Header.Type == unix.NFNL_SUBSYS_CTNETLINK<<8|msgDelete {
		k.asked = append(k.asked, "delete")
	} else {
		k.asked = append(k.asked, "get")
	}
	if k.refuses != 0 {
		refusal := m
		refusal.Header.Flags = 0 // the request's flags mean something else in a reply
		return nltest.Error(int(k.refuses), []netlink.Message{refusal})
	}
	var answers []netlink.Message
	for i, e := range k.entries {
		answer := netlink.Message{Header: m.Header, Data: entry(e, uint32(i))}
		if k.interrupts > 0 {
			answer.Header.Flags |= netlink.DumpInterrupted
		}
		answers = append(answers, answer)
	}
	k.interrupts--
	done := m
	done.Data = nil
	return nltest.Multipart(append(answers, done))
}

// entry returns an entry as the kernel sends it.
func entry(e Entry, id uint32) []byte {
	client := netip.AddrPortFrom(e.Original.Addr().Next(), 4000)
	return request(msgGet, 0, nft.FamilyNumber(e.Family()), func(enc *attr.Encoder) {
		encodeTuple(enc, ctaTupleOrig, e.Protocol, client, e.Original)
		encodeTuple(enc, ctaTupleReply, e.Protocol, e.Reply, client)
		enc.Uint32(ctaStatus, e.Status)
		enc.Uint32(ctaID, id)
	}).Data
}

// appendAttribute appends an attribute with any value.
func appendAttribute(b []byte, kind uint16, value []byte) []byte {
	e := attr.Encoder{Bytes: b}
	e.Data(kind, value)
	return e.Bytes
}

// sample are entries of both families and all protocols at ports 53 and 54.
func sample() (all []Entry) {
	for _, p := range model.Protocols {
		for port := uint16(53); port <= 54; port++ {
			all = append(all,
				Entry{Protocol: p, Original: netip.AddrPortFrom(netip.MustParseAddr("10.96.0.10"), port), Reply: netip.MustParseAddrPort("10.244.1.2:5353")},
				Entry{Protocol: p, Original: netip.AddrPortFrom(netip.MustParseAddr("fd00:10:96::10"), port), Reply: netip.MustParseAddrPort("[fd00:10:244::2]:5353")},
			)
		}
	}
	return all
}

func anyEntry(Entry) bool { return true }

// brief returns entries without the parts that sample does not have.
func brief(list []Entry) (out []Entry) {
	for _, e := range list {
		out = append(out, Entry{Protocol: e.Protocol, Original: e.Original, Reply: e.Reply})
	}
	return out
}

// TestInterruptedDumpIsRepeated lists from a kernel that filters nothing.
func TestInterruptedDumpIsRepeated(t *testing.T) {
	for _, f := range model.Families {
		k := &fakeKernel{entries: sample(), interrupts: maxListTries - 1}
		list, err := k.open().List(Query{Family: f, Protocol: model.UDP}, anyEntry)
		want := slices.DeleteFunc(sample(), func(e Entry) bool { return e.Family() != f || e.Protocol != model.UDP })
		noKey := func(e Entry) bool { return e.key == "" }
		if err != nil || !slices.Equal(brief(list), want) || slices.ContainsFunc(list, noKey) {
			t.Errorf("listed %v, %v, want %v", list, err, want)
		}
		k.interrupts, k.asked = 100, nil
		list, err = k.open().List(Query{Family: f, Protocol: model.UDP}, anyEntry)
		if !errors.Is(err, unix.EINTR) || len(list) > 0 || len(k.asked) != maxListTries {
			t.Errorf("of a list that is always interrupted: %v, %v, asked %d times, want an error after %d", list, err, len(k.asked), maxListTries)
		}
	}
	k := &fakeKernel{entries: sample(), interrupts: maxListTries - 1}
	var all []Entry
	err := k.open().Each(func() { all = nil }, func(e Entry) { all = append(all, e) })
	if err != nil || !slices.Equal(brief(all), sample()) || len(k.asked) != maxListTries {
		t.Errorf("asked %q, walked past %v, %v, want %v", k.asked, all, err, sample())
	}
}

func TestErrorsNameTheCause(t *testing.T) {
	for _, tc := range []struct {
		errno unix.Errno
		want  string
	}{
		{unix.EPERM, "CAP_NET_ADMIN"},
		{unix.EINVAL, "CONFIG_NF_CT_NETLINK"},
		{unix.ENOBUFS, "no room for its answers"},
		{unix.ENOMEM, "cannot allocate memory"},
	} {
		k := &fakeKernel{refuses: tc.errno}
		_, err := k.open().List(Query{Family: model.IPv6, Protocol: model.UDP}, anyEntry)
		checkError(t, err, tc.errno, "list udp flows of IPv6", tc.want)
		n, err := k.open().Delete(sample())
		checkError(t, err, tc.errno, "delete 12 flows", tc.want)
		if n != 0 {
			t.Errorf("deleted %d despite %v", n, err)
		}
		err = k.open().Each(func() {}, func(Entry) {})
		checkError(t, err, tc.errno, "list flows", tc.want)
	}
	if n, err := (&fakeKernel{refuses: unix.EPERM}).open().Delete(nil); n != 0 || err != nil {
		t.Errorf("of nothing: deleted %d, %v", n, err)
	}
}

func checkError(t *testing.T, err error, is unix.Errno, want ...string) {
	t.Helper()
	if !errors.Is(err, is) {
		t.Errorf("%v is not %v", err, is)
	}
	for _, w := range want {
		if !strings.Contains(fmt.Sprint(err), w) || strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("%v: want one line with %q", err, w)
		}
	}
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

// TestAnsweredEntriesWithoutKernelFilter lists from a kernel that filters nothing.
func TestAnsweredEntriesWithoutKernelFilter(t *testing.T) {
	entries := slices.Concat(sample(), sample())
	for i := range sample() {
		entries[i].Status = statusSeenReply
	}
	c := (&fakeKernel{entries: entries}).open()
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			for replied, each := range map[bool]func(model.Family, model.Protocol, func(), func(Entry)) error{
				false: c.EachUnanswered, true: c.EachAnswered,
			} {
				n := 0
				err := each(f, p, func() { n = 0 }, func(e Entry) {
					if n++; e.Family() != f || e.Protocol != p || e.Replied != replied {
						t.Errorf("%s, %s, replied %t: got %+v", f, p, replied, e)
					}
				})
				if err != nil || n != 2 {
					t.Errorf("%s, %s, replied %t: %d entries, %v", f, p, replied, n, err)
				}
			}
		}
	}
}

func TestTableIsFullWithATwentiethLeft(t *testing.T) {
	for _, tt := range []struct {
		entries, most uint32
		full          bool
	}{{0, 0, false}, {0, 100, false}, {94, 100, false}, {95, 100, true}, {262_144, 262_144, true}, {4_294_967_295, 4_294_967_295, true}} {
		c := New(Config{})
		c.dial = func() (*netlink.Conn, error) {
			return nltest.Dial(func(requests []netlink.Message) ([]netlink.Message, error) {
				answer := request(msgUsage, 0, unix.AF_UNSPEC, func(e *attr.Encoder) {
					e.Uint32(ctaStatsEntries, tt.entries)
					e.Uint32(ctaStatsMaxEntries, tt.most)
				})
				answer.Header.Sequence, answer.Header.PID = requests[0].Header.Sequence, requests[0].Header.PID
				return nltest.Multipart([]netlink.Message{answer, {Header: answer.Header}})
			}), nil
		}
		if full, err := c.IsFull(); err != nil || full != tt.full {
			t.Errorf("%d of %d entries: full %t, %v", tt.entries, tt.most, full, err)
		}
	}
}
