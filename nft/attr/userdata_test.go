package attr_test

import (
	"testing"

	"kube-vmap/nft/attr"
)

func TestUserdataFindsAKind(t *testing.T) {
	for _, tc := range []struct {
		userdata, want string
	}{
		{"\x00\x03ab\x00", "ab\x00"},
		{"\x07\x01x\x00\x01y", "y"},
		{"\x00\x00", ""},
		{"\x07\x01x", ""},
		{"\x00\x03ab", ""}, // truncated
		{"\x00", ""},
		{"", ""},
	} {
		if got := string(attr.Userdata([]byte(tc.userdata), 0)); got != tc.want {
			t.Errorf("%q: found %q, want %q", tc.userdata, got, tc.want)
		}
	}
}
