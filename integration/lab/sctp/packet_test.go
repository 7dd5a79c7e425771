package sctp

import (
	"errors"
	"testing"
)

// TestDecodeRefusesWrongChecksum has a vector of RFC 3720, B.4, which uses the same CRC. No other
// test of the lab fails if a translated packet has a wrong one that both sides accept.
func TestDecodeRefusesWrongChecksum(t *testing.T) {
	if got, want := checksum(make([]byte, 32)), uint32(0x8a9136aa); got != want {
		t.Errorf("the checksum of zeros is %#08x, want %#08x", got, want)
	}
	b := packet{source: 40000, destination: 80, tag: 8, chunks: []chunk{
		{kind: typeCookieEcho, value: []byte("odd")}, data(9, 1, []byte("hello")),
	}}.encode()
	if _, err := decode(b); err != nil {
		t.Error(err)
	}
	for i := range b {
		b[i] ^= 0x10
		if _, err := decode(b); !errors.Is(err, errChecksum) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		b[i] ^= 0x10
	}
}
