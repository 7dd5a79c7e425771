package simulate

import (
	"math"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

func attribute(kind uint16, value []byte) []byte {
	var e attr.Encoder
	e.Data(kind, value)
	return e.Bytes
}

// TestDecodeExpressionsThatTheLibraryDoesNot has a shift, which the library decodes as a mask,
// and a seed that the kernel chose, which it decodes as none.
func TestDecodeExpressionsThatTheLibraryDoesNot(t *testing.T) {
	number := func(kind uint16, n byte) []byte { return attribute(kind, []byte{0, 0, 0, n}) }
	for _, tc := range []struct {
		name string
		data []byte
		want any
	}{
		{"bitwise", number(6, 1), UnknownExpression{Name: "bitwise" + partlyUnderstood, Text: "(bitwise)"}},
		{"byteorder", slices.Concat(number(unix.NFTA_BYTEORDER_LEN, 4), number(unix.NFTA_BYTEORDER_SIZE, 2)), &expr.Byteorder{Len: 4, Size: 2}},
		{"tproxy", slices.Concat(number(2, 8), number(3, 9)), UnknownExpression{Name: "tproxy"}},
		{"hash", number(unix.NFTA_HASH_MODULUS, 5), &expr.Hash{Type: expr.HashTypeSym, Modulus: 5}},
		{"last", nil, NoEffect{Name: "last"}},
	} {
		e := append(attribute(unix.NFTA_EXPR_NAME, []byte(tc.name+"\x00")), attribute(unix.NFTA_EXPR_DATA|unix.NLA_F_NESTED, tc.data)...)
		var d attr.Decoder
		if got := DecodeExpression(&d, unix.NFPROTO_IPV4, e); !reflect.DeepEqual(got, tc.want) || d.Err() != nil {
			t.Errorf("%s: %+v, %v, want %+v", tc.name, got, d.Err(), tc.want)
		}
	}
}

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
		if got := verdictText(&tc.verdict); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.verdict, got, tc.want)
		}
	}
}
