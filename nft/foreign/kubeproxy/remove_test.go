package kubeproxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// fakeKernel has kube-proxy's own table and can be made to fail. How a real kernel handles
// the messages is tested in integration/takeover.
type fakeKernel struct {
	generation uint32
	there      bool
	// readings and batches are the results of the next reads of tables and of the next
	// batches: an errno, or zero for success. After them all succeed.
	readings, batches []unix.Errno
	// reads and writes are how many batches another program commits: one during each of
	// our reads, one before each of our batches.
	reads, writes int
	sockets       int
	waiting       [][]netlink.Message
}

func (k *fakeKernel) dial() (*netlink.Conn, error) {
	k.sockets++
	k.generation = max(k.generation, 1) // the kernel's first one
	k.waiting = nil
	return nltest.Dial(k.serve), nil
}

// serve answers requests, and without requests returns the answers that wait.
func (k *fakeKernel) serve(requests []netlink.Message) ([]netlink.Message, error) {
	switch {
	case len(requests) == 0:
		if len(k.waiting) == 0 {
			return nil, errors.New("waited for an answer that never comes")
		}
		next := k.waiting[0]
		k.waiting = k.waiting[1:]
		return next, nil
	case len(requests) > 1:
		k.batch(requests)
		return nil, nil
	}
	m := requests[0]
	switch m.Header.Type & 0xff {
	case unix.NFT_MSG_GETGEN:
		return k.answer(m, unix.NFTA_GEN_ID, binary.BigEndian.AppendUint32(nil, k.generation)), nil
	case unix.NFT_MSG_GETTABLE:
		return k.list(m)
	case unix.NFT_MSG_GETCHAIN:
		return k.answer(m, unix.NFTA_CHAIN_NAME, []byte("services")), nil
	}
	return nil, fmt.Errorf("unexpected request %v", m.Header)
}

func (k *fakeKernel) list(m netlink.Message) ([]netlink.Message, error) {
	if errno := next(&k.readings); errno != 0 {
		return nil, errno
	}
	name := "other"
	if k.there {
		name = tableName
	}
	k.disturb(&k.reads)
	return k.answer(m, unix.NFTA_TABLE_NAME, append([]byte(name), 0)), nil
}

func (k *fakeKernel) answer(m netlink.Message, kind uint16, value []byte) []netlink.Message {
	m.Data = append([]byte{0, 0, 0, 0}, nltest.MustMarshalAttributes([]netlink.Attribute{{Type: kind, Data: value}})...)
	return []netlink.Message{m}
}

func (k *fakeKernel) batch(requests []netlink.Message) {
	k.disturb(&k.writes)
	errno, refused := next(&k.batches), requests[1]
	generation := binary.BigEndian.Uint32(requests[0].Data[8:])
	if generation != k.generation {
		errno, refused = unix.ERESTART, requests[0]
	}
	refused.Header.Type = netlink.Error
	refused.Data = binary.NativeEndian.AppendUint32(nil, -uint32(errno))
	k.waiting = append(k.waiting, []netlink.Message{refused})
	if errno == 0 {
		k.there = false
		k.generation++
	}
}

func (k *fakeKernel) disturb(times *int) {
	if *times > 0 {
		*times--
		k.generation++
	}
}

func next(answers *[]unix.Errno) unix.Errno {
	if len(*answers) == 0 {
		return 0
	}
	first := (*answers)[0]
	*answers = (*answers)[1:]
	return first
}

func TestRemoveRetriesAndSkipsMissingFamilies(t *testing.T) {
	for _, f := range model.Families {
		for _, tc := range []struct {
			name    string
			kernel  fakeKernel
			sockets int
			marker  bool
		}{
			{"no other program writes", fakeKernel{there: true}, 1, false},
			{"others write before we do, twice", fakeKernel{there: true, writes: 2}, 2, false},
			{"others write while we read", fakeKernel{there: true, reads: 1}, 2, false},
			{"others write all the time, but not before our batch", fakeKernel{there: true, reads: 1000}, 3, false},
			{"others write, and there is nothing to remove", fakeKernel{reads: 1}, 2, false},
			{"others write all the time, and there is nothing to remove", fakeKernel{reads: 1000}, 2, false},
			{"the answers are too many", fakeKernel{there: true, readings: []unix.Errno{unix.ENOBUFS}}, 2, false},
			{"a signal comes", fakeKernel{there: true, readings: []unix.Errno{unix.EINTR, unix.EINTR}}, 3, false},
			{"the table is deleted meanwhile", fakeKernel{there: true, batches: []unix.Errno{unix.ENOENT}}, 2, false},
			{"the kernel lacks the family", fakeKernel{readings: []unix.Errno{unix.EAFNOSUPPORT}}, 1, false},
			{"it lacks the family for the marker, too", fakeKernel{batches: []unix.Errno{unix.EAFNOSUPPORT}}, 1, true},
			{"it lacks nftables for the marker", fakeKernel{batches: []unix.Errno{unix.EOPNOTSUPP}}, 1, true},
		} {
			k := tc.kernel
			removed, err := removeTables(k.dial, f, tc.marker)
			if err != nil || k.there {
				t.Errorf("%s: table is there: %v, error: %v", tc.name, k.there, err)
			}
			if tc.kernel.there != slices.Contains(removed, fmt.Sprintf("table %s kube-proxy", [...]string{"ip", "ip6"}[f])) {
				t.Errorf("%s: removed %q", tc.name, removed)
			}
			if k.sockets != tc.sockets {
				t.Errorf("%s: %d tries, want %d", tc.name, k.sockets, tc.sockets)
			}
		}
	}
}

func TestRemoveReturnsErrorsThatDoNotPass(t *testing.T) {
	for _, tc := range []struct {
		name   string
		kernel fakeKernel
		is     error
		says   string
		marker bool
	}{
		{"others write all the time", fakeKernel{there: true, writes: 1000000}, unix.ERESTART, "too fast", false},
		{"no permission", fakeKernel{there: true, batches: []unix.Errno{unix.EPERM}}, fs.ErrPermission, "CAP_NET_ADMIN", false},
		{"no permission for the marker", fakeKernel{batches: []unix.Errno{unix.EPERM}}, fs.ErrPermission, "CAP_NET_ADMIN", true},
		{"no permission to read", fakeKernel{readings: []unix.Errno{unix.EPERM}}, fs.ErrPermission, "CAP_NET_ADMIN", false},
		{"no memory", fakeKernel{there: true, batches: []unix.Errno{unix.ENOMEM}}, unix.ENOMEM, "", false},
	} {
		k := tc.kernel
		removed, err := removeTables(k.dial, model.IPv4, tc.marker)
		if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) || len(removed) > 0 {
			t.Errorf("%s: removed %q, error %v", tc.name, removed, err)
		}
	}
}
