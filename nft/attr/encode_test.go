package attr_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// native is a number in the byte order of the machine.
func native(n uint16) []byte { return binary.NativeEndian.AppendUint16(nil, n) }

// header is an attribute's header.
func header(length, kind uint16) []byte { return append(native(length), native(kind)...) }

// read returns a method that decodes a number.
func read[N uint8 | uint16 | uint32 | uint64](method func(*attr.Decoder, []byte) N) func(*attr.Decoder, []byte) uint64 {
	return func(d *attr.Decoder, b []byte) uint64 { return uint64(method(d, b)) }
}

func TestAttributesOfNumbers(t *testing.T) {
	native32 := binary.NativeEndian.AppendUint32(nil, 9<<16)
	for name, tt := range map[string]struct {
		encode func(*attr.Encoder)
		bytes  []byte
		decode func(*attr.Decoder, []byte) uint64
		want   uint64
	}{
		"uint8":         {func(e *attr.Encoder) { e.Uint8(1, 7) }, []byte{7}, read((*attr.Decoder).Uint8), 7},
		"uint16":        {func(e *attr.Encoder) { e.Uint16(1, 258) }, []byte{1, 2}, read((*attr.Decoder).Uint16), 258},
		"uint32":        {func(e *attr.Encoder) { e.Uint32(1, 9<<16) }, []byte{0, 9, 0, 0}, read((*attr.Decoder).Uint32), 9 << 16},
		"uint64":        {func(e *attr.Encoder) { e.Uint64(1, 9<<40) }, []byte{2: 9, 7: 0}, read((*attr.Decoder).Uint64), 9 << 40},
		"native uint16": {func(e *attr.Encoder) { e.NativeUint16(1, 258) }, native(258), read((*attr.Decoder).NativeUint16), 258},
		"native uint32": {func(e *attr.Encoder) { e.NativeUint32(1, 9<<16) }, native32, read((*attr.Decoder).NativeUint32), 9 << 16},
	} {
		t.Run(name, func(t *testing.T) {
			var e attr.Encoder
			tt.encode(&e)
			want := append(append(header(uint16(4+len(tt.bytes)), 1), tt.bytes...), make([]byte, -len(tt.bytes)&3)...)
			if !bytes.Equal(e.Bytes, want) || e.Err() != nil {
				t.Errorf("encoded as %v, %v, want %v", e.Bytes, e.Err(), want)
			}
			var d attr.Decoder
			if got := tt.decode(&d, tt.bytes); got != tt.want || d.Err() != nil {
				t.Errorf("decoded as %d, %v, want %d", got, d.Err(), tt.want)
			}
			got := tt.decode(&d, []byte{1, 2, 3})
			if d.Fail(errors.New("later")); got != 0 || !errors.Is(d.Err(), attr.ErrTruncated) {
				t.Errorf("3 bytes are decoded as %d, %v", got, d.Err())
			}
		})
	}
}

func TestEncodeAttributes(t *testing.T) {
	for name, tt := range map[string]struct {
		encode func(*attr.Encoder)
		want   []byte
	}{
		"string":        {func(e *attr.Encoder) { e.String(1, "abc") }, append(header(8, 1), 'a', 'b', 'c', 0)},
		"padded string": {func(e *attr.Encoder) { e.String(1, "a") }, append(header(6, 1), 'a', 0, 0, 0)},
		"data":          {func(e *attr.Encoder) { e.Data(1, []byte{9}) }, append(header(5, 1), 9, 0, 0, 0)},
		"flag":          {func(e *attr.Encoder) { e.Data(1, nil) }, header(4, 1)},
		"nested": {
			func(e *attr.Encoder) { e.Nested(2, func() { e.Uint8(1, 7) }) },
			append(header(12, 2|unix.NLA_F_NESTED), append(header(5, 1), 7, 0, 0, 0)...),
		},
		"netfilter header": {func(e *attr.Encoder) { e.NetfilterHeader(2, 10) }, []byte{2, 0, 0, 10}},
	} {
		var e attr.Encoder
		if tt.encode(&e); !bytes.Equal(e.Bytes, tt.want) || e.Err() != nil {
			t.Errorf("%s is encoded as %v, %v, want %v", name, e.Bytes, e.Err(), tt.want)
		}
	}
}

func TestEncodeMessages(t *testing.T) {
	var e attr.Encoder
	for kind := range uint16(2) {
		e.OpenMessage(kind, 5)
		e.NetfilterHeader(unix.NFPROTO_IPV4, 0)
		e.CloseMessage()
	}
	message := func(n uint16) []byte {
		b := binary.NativeEndian.AppendUint32(nil, 20)
		b = append(append(b, native(n)...), native(5)...)
		b = binary.NativeEndian.AppendUint32(b, uint32(n)) // sequence number
		return append(b, 0, 0, 0, 0, unix.NFPROTO_IPV4, 0, 0, 0)
	}
	if want := append(message(0), message(1)...); !bytes.Equal(e.Bytes, want) || e.Messages != 2 {
		t.Errorf("encoded %d messages as %v, want %v", e.Messages, e.Bytes, want)
	}
}

func TestEncodeRefusesAttributeThatIsTooLong(t *testing.T) {
	var e attr.Encoder
	e.Data(1, make([]byte, attr.MaxLen-attr.HeaderLen))
	if e.Err() != nil {
		t.Errorf("an attribute of the greatest length is refused: %v", e.Err())
	}
	e.Data(1, make([]byte, attr.MaxLen-attr.HeaderLen+1))
	e.Uint8(1, 7)
	if e.Err() == nil || !strings.Contains(e.Err().Error(), "65536 bytes") {
		t.Errorf("error %v, want one about the attribute of 65536 bytes", e.Err())
	}
}

func TestEncodeDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() {
		e := attr.Encoder{Bytes: buf}
		e.OpenMessage(1, 2)
		list := e.OpenNested(3)
		e.String(1, "abc")
		e.Uint32(2, 3)
		e.Nested(4, func() { e.Uint8(1, 7) })
		e.Close(list)
		e.CloseMessage()
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
