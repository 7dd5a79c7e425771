package wire

import (
	"slices"
	"testing"

	"kube-vmap/nft"
)

func TestFingerprintInUserdata(t *testing.T) {
	const mark = nft.Fingerprint(0x0123456789abcdef)
	comment := []byte{0, 3, 'h', 'i', 0}
	for name, tt := range map[string]struct {
		userdata []byte
		want     nft.Fingerprint
	}{
		"none":                         {nil, 0},
		"behind a comment":             {append(slices.Clone(comment), fingerprintUserdata(mark)...), mark},
		"before a comment":             {append(fingerprintUserdata(mark), comment...), mark},
		"only a comment":               {comment, 0},
		"cut":                          {fingerprintUserdata(mark)[:9], 0},
		"of another length":            {[]byte{fingerprintTag, 2, 1, 2}, 0},
		"a comment longer than it is":  {[]byte{0, 200, 'h'}, 0},
		"a byte that belongs to none":  {append(fingerprintUserdata(mark), 7), mark},
		"a comment that looks like it": {append([]byte{0, 10}, fingerprintUserdata(mark)...), 0},
	} {
		if got := fingerprintIn(tt.userdata); got != tt.want {
			t.Errorf("%s: it is read as %x, want %x", name, got, tt.want)
		}
	}
}
