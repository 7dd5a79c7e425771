package sctp

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"reflect"
	"testing"
)

// The vectors are from RFC 3720, B.4, which uses the same CRC.
func TestChecksumMatchesRFC3720(t *testing.T) {
	zeros, increasing := make([]byte, 32), make([]byte, 32)
	for i := range increasing {
		increasing[i] = byte(i)
	}
	if got, want := crc32.Checksum(increasing, castagnoli), uint32(0x46dd794e); got != want {
		t.Errorf("increasing: %#08x, want %#08x", got, want)
	}
	if got, want := checksum(zeros), uint32(0x8a9136aa); got != want {
		t.Errorf("zeros: %#08x, want %#08x", got, want)
	}
	copy(zeros[8:], "any.") // where the checksum itself is
	if got, want := checksum(zeros), uint32(0x8a9136aa); got != want {
		t.Errorf("zeros under a checksum: %#08x, want %#08x", got, want)
	}
}

var samples = []Packet{
	{Source: 1, Destination: 2, Tag: 3},
	{Source: 40000, Destination: 80, Chunks: []Chunk{Init{Tag: 7, TSN: 9}.Chunk(TypeInit)}},
	{Source: 80, Destination: 40000, Tag: 7, Chunks: []Chunk{
		Init{Tag: 8, TSN: 10, Cookie: []byte("sixteen bytes...")}.Chunk(TypeInitAck),
	}},
	{Source: 40000, Destination: 80, Tag: 8, Chunks: []Chunk{
		{Type: TypeCookieEcho, Value: []byte("odd")},
		Data{TSN: 9, Sequence: 1, Payload: []byte("hello")}.Chunk(),
		sack(10), userAbort(),
	}},
}

func TestDecodeReversesEncode(t *testing.T) {
	for _, want := range samples {
		got, err := Decode(want.Encode())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
	}
}

func TestDecodeRefusesWrongChecksum(t *testing.T) {
	b := samples[3].Encode()
	for i := range b {
		b[i] ^= 0x10
		if _, err := Decode(b); !errors.Is(err, ErrChecksum) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		b[i] ^= 0x10
	}
}

func TestDecodeRefusesBrokenChunks(t *testing.T) {
	for name, chunks := range map[string][]byte{
		"header cut off":       {0, 0, 0},
		"length under 4":       {0, 0, 0, 3},
		"length over the end":  {0, 0, 0, 9, 1, 2, 3, 4},
		"second one cut short": {0, 0, 0, 4, 0, 0},
	} {
		if p, err := Decode(sealed(append(make([]byte, headerSize), chunks...))); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for _, size := range []int{0, 11, 15} {
		c := Chunk{Value: make([]byte, size)}
		if _, err := DecodeInit(c); err == nil {
			t.Errorf("INIT of %d bytes", size)
		}
		if _, err := DecodeData(c); size < dataSize && err == nil {
			t.Errorf("DATA of %d bytes", size)
		}
	}
}

// FuzzDecode checks that a packet is either refused, or unchanged after encoding and
// decoding it again.
func FuzzDecode(f *testing.F) {
	for _, p := range samples {
		f.Add(p.Encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= headerSize {
			sealed(b)
		}
		p, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(p.Encode())
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("%+v became %+v, %v", p, again, err)
		}
		for _, c := range p.Chunks {
			init, err := DecodeInit(c)
			if err != nil {
				continue
			}
			if again, err := DecodeInit(init.Chunk(c.Type)); err != nil || !sameInit(init, again) {
				t.Fatalf("%+v became %+v, %v", init, again, err)
			}
		}
		var r Responder
		r.Open(p.Destination, echo)
		r.Answer(client.Addr(), p)
	})
}

// sameInit treats an empty cookie as none.
func sameInit(a, b Init) bool {
	return a.Tag == b.Tag && a.TSN == b.TSN && string(a.Cookie) == string(b.Cookie)
}

// sealed sets the checksum of a packet.
func sealed(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[8:], checksum(b))
	return b
}
