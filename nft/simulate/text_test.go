package simulate

import (
	"math"
	"net/netip"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
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

func TestVerdictText(t *testing.T) {
	for _, tc := range []struct {
		verdict expr.Verdict
		want    string
	}{
		{expr.Verdict{}, "drop"},
		{expr.Verdict{Kind: expr.VerdictKind(unix.ECONNREFUSED) << 16}, "drop"}, // with an error for the sender
		{expr.Verdict{Kind: expr.VerdictAccept}, "accept"},
		{expr.Verdict{Kind: expr.VerdictStolen}, "stolen"},
		{expr.Verdict{Kind: 7<<16 | expr.VerdictQueue}, "queue to 7"},
		{expr.Verdict{Kind: unix.NFT_JUMP, Chain: "a"}, "jump a"},
		{expr.Verdict{Kind: unix.NFT_GOTO, Chain: "b"}, "goto b"},
		{expr.Verdict{Kind: unix.NFT_RETURN}, "return"},
		{expr.Verdict{Kind: unix.NFT_CONTINUE}, "continue"},
		{expr.Verdict{Kind: math.MinInt32}, "verdict -2147483648"},
	} {
		if got := VerdictText(&tc.verdict); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.verdict, got, tc.want)
		}
	}
}
