package simulate

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// attribute returns an attribute, padded.
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
