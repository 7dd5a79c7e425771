package simulate

import (
	"net/netip"
	"testing"
)

func TestPrefixOfMask(t *testing.T) {
	for _, tc := range []struct{ address, mask, want string }{
		{"10.0.0.0", "255.0.0.0", "10.0.0.0/8"},
		{"10.1.2.3", "255.255.255.255", "10.1.2.3/32"},
		{"10.0.0.0", "255.254.0.0", "10.0.0.0/15"},
		{"10.0.0.0", "255.0.255.0", ""},
		{"10.0.0.0", "253.0.0.0", ""},
		{"fd00::", "ffff:fff0::", "fd00::/28"},
	} {
		got, ok := prefixOf(netip.MustParseAddr(tc.address).AsSlice(), netip.MustParseAddr(tc.mask).AsSlice())
		if ok != (tc.want != "") || ok && got.String() != tc.want {
			t.Errorf("%s & %s is %s, want %q", tc.address, tc.mask, got, tc.want)
		}
	}
}
