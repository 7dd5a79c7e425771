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
	b := Packet{Source: 40000, Destination: 80, Tag: 8, Chunks: []Chunk{
		{Type: TypeCookieEcho, Value: []byte("odd")},
		Data{TSN: 9, Sequence: 1, Payload: []byte("hello")}.Chunk(),
	}}.Encode()
	if _, err := Decode(b); err != nil {
		t.Error(err)
	}
	for i := range b {
		b[i] ^= 0x10
		if _, err := Decode(b); !errors.Is(err, ErrChecksum) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		b[i] ^= 0x10
	}
}
