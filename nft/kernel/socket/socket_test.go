package socket

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"
)

func TestOpenErrorNamesTheMissingPart(t *testing.T) {
	err := openError(unix.EPROTONOSUPPORT)
	if !errors.Is(err, unix.EPROTONOSUPPORT) || !strings.Contains(err.Error(), "CONFIG_NETFILTER_NETLINK") {
		t.Errorf("%v", err)
	}
}

func TestAskReadsAllAnswersAfterAnError(t *testing.T) {
	sent := 0
	conn := nltest.Dial(func(requests []netlink.Message) ([]netlink.Message, error) {
		sent += len(requests)
		end := requests[0]
		end.Data = nil
		return nltest.Multipart([]netlink.Message{requests[0], requests[0], end})
	})
	calls, failure := 0, errors.New("cannot be decoded")
	err := Ask(conn, Nftables(unix.NFT_MSG_GETCHAIN, netlink.Dump, unix.NFPROTO_IPV4, nil), func(netlink.Message) error {
		calls++
		return failure
	})
	if !errors.Is(err, failure) || calls != 2 || sent != 1 {
		t.Errorf("error %v after %d requests and %d answers", err, sent, calls)
	}
}

// answers returns a connection that replies to a batch with one error for each errno, for
// the message with that number, and sends nothing more.
func answers(errnos ...unix.Errno) *netlink.Conn {
	var waiting [][]netlink.Message
	return nltest.Dial(func(requests []netlink.Message) ([]netlink.Message, error) {
		for i, errno := range errnos {
			if len(requests) == 0 || errno == 0 && i+1 < len(errnos) {
				continue // no reply about a message other than the last one
			}
			m := requests[i+1]
			m.Header.Type, m.Header.Flags = netlink.Error, 0
			m.Data = binary.NativeEndian.AppendUint32(nil, -uint32(errno))
			waiting = append(waiting, []netlink.Message{m})
		}
		if len(requests) > 0 || len(waiting) == 0 {
			return nil, nil
		}
		next := waiting[0]
		waiting = waiting[1:]
		return next, nil
	})
}

func TestCommitReturnsTheFirstErrorThatIsNotTolerated(t *testing.T) {
	for _, tc := range []struct {
		name      string
		errnos    []unix.Errno // of each message
		tolerated []int
		want      error
	}{
		{"accepted", []unix.Errno{0, 0, 0}, nil, nil},
		{"refused", []unix.Errno{0, unix.EBUSY, 0}, nil, unix.EBUSY},
		{"tolerated, the last one accepted", []unix.Errno{unix.EBUSY, 0}, []int{0}, nil},
		{"tolerated, also the last one", []unix.Errno{unix.EBUSY, unix.EBUSY}, []int{0, 1}, nil},
		{"tolerated but one", []unix.Errno{unix.EBUSY, unix.EPERM}, []int{0}, unix.EPERM},
	} {
		var b Batch
		for range tc.errnos {
			b.Add(unix.NFT_MSG_DELCHAIN, 0, unix.NFPROTO_IPV4, nil)
		}
		err := b.Commit(answers(tc.errnos...), func(i int, _ error) bool { return slices.Contains(tc.tolerated, i) })
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}
