package rtnetlink

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestUsableAddresses(t *testing.T) {
	const optimistic = unix.IFA_F_TENTATIVE | unix.IFA_F_OPTIMISTIC
	for _, test := range []struct {
		addr  string
		flags int
		want  string // empty if not usable
	}{
		{"192.0.2.1", 0, "192.0.2.1"},
		{"192.0.2.1", unix.IFA_F_PERMANENT | unix.IFA_F_SECONDARY, "192.0.2.1"},
		{"169.254.169.254", 0, "169.254.169.254"},
		{"127.0.0.1", 0, ""},
		{"127.1.2.3", 0, ""},
		{"2001:db8::1", 0, "2001:db8::1"},
		{"fe80::1", unix.IFA_F_PERMANENT, "fe80::1"},
		{"::ffff:192.0.2.1", 0, "192.0.2.1"},
		{"::ffff:127.0.0.1", 0, ""},
		{"::1", unix.IFA_F_PERMANENT, ""},
		{"2001:db8::1", unix.IFA_F_DEPRECATED, "2001:db8::1"},
		{"2001:db8::1", unix.IFA_F_TEMPORARY, "2001:db8::1"},
		{"2001:db8::1", unix.IFA_F_TENTATIVE, ""},
		{"2001:db8::1", optimistic, "2001:db8::1"},
		{"2001:db8::1", unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED, ""},
	} {
		addr := netip.MustParseAddr(test.addr)
		a := &netlink.Addr{IPNet: netlink.NewIPNet(addr.AsSlice()), Flags: test.flags}
		got, ok := usableAddr(a)
		if ok != (test.want != "") || ok && got.Addr().String() != test.want {
			t.Errorf("%s with flags %#x: got %s, %v", test.addr, test.flags, got, ok)
		}
	}
	if _, ok := usableAddr(&netlink.Addr{}); ok {
		t.Error("an address without IPNet is usable")
	}
}

// TestWaitEndsWithItsContext skips the changes that other programs make to interfaces.
func TestWaitEndsWithItsContext(t *testing.T) {
	f, err := FollowInterfaces(0)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for err == nil {
		err = f.Wait(ctx)
	}
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, unix.EAGAIN) {
		t.Errorf("%v, want the error of the context", err)
	}
}
