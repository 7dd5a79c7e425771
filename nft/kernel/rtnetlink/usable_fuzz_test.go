package rtnetlink

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// FuzzUsable passes addresses of any length with any flags. A usable one must be valid,
// not loopback, and not a duplicate.
func FuzzUsable(f *testing.F) {
	for _, text := range []string{"192.0.2.1", "127.0.0.1", "0.0.0.0", "2001:db8::1", "::1", "fe80::1", "::ffff:192.0.2.1", "::ffff:127.0.0.1"} {
		addr := netip.MustParseAddr(text)
		f.Add(addr.AsSlice(), unix.IFA_F_PERMANENT)
		f.Add(addr.AsSlice()[1:], unix.IFA_F_TENTATIVE)
	}
	f.Add([]byte{}, -1)
	f.Fuzz(func(t *testing.T, ip []byte, flags int) {
		before := slices.Clone(ip)
		a := netlink.Addr{IPNet: netlink.NewIPNet(ip), Flags: flags}
		addr, ok := usableAddr(&a)
		if !slices.Equal(before, ip) {
			t.Errorf("% x became % x", before, ip)
		}
		if !ok {
			return
		}
		if !addr.IsValid() || addr.Is4In6() || addr.IsLoopback() || addr.Zone() != "" || !a.IP.Equal(addr.AsSlice()) {
			t.Errorf("% x is usable as %s", ip, addr)
		}
		if refused := flags&unix.IFA_F_DADFAILED != 0; refused && flags&unix.IFA_F_OPTIMISTIC == 0 {
			t.Errorf("%s is usable with flags %#x", addr, flags)
		}
	})
}
