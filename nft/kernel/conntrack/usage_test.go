package conntrack

import (
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

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
