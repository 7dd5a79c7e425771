package attr_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

func TestDecodeReturnsWhatWasEncoded(t *testing.T) {
	var e attr.Encoder
	e.OpenMessage(10, 5)
	e.NetfilterHeader(unix.NFPROTO_IPV4, 0)
	e.String(1, "abc")
	e.Uint8(2, 7)
	e.Nested(3, func() {
		e.Uint16(4, 0x102)
		e.Uint64(5, 1<<40)
	})
	e.Uint32(6, 1<<20)
	e.NativeUint16(7, 3)
	e.NativeUint32(8, 1<<20)
	e.CloseMessage()
	e.OpenMessage(11, 6)
	e.CloseMessage()

	var d attr.Decoder
	var got []string
	for h, message := range d.Messages(e.Bytes) {
		got = append(got, fmt.Sprintf("%+v", h))
		if len(message) == 0 {
			continue
		}
		for kind, value := range d.Attributes(d.Body(message)) {
			got = append(got, fmt.Sprintf("%d: %s", kind, decodeOne(&d, kind, value)))
		}
	}
	want := []string{
		"{Type:10 Flags:5 Sequence:0}", "1: abc", "2: 7", "3: 258, 1099511627776", "6: 1048576", "7: 3", "8: 1048576",
		"{Type:11 Flags:6 Sequence:1}",
	}
	if !slices.Equal(got, want) || d.Err() != nil {
		t.Errorf("decoded %q, %v, want %q", got, d.Err(), want)
	}
}

func decodeOne(d *attr.Decoder, kind uint16, value []byte) string {
	switch kind {
	case 2:
		return fmt.Sprint(d.Uint8(value))
	case 3:
		return fmt.Sprintf("%d, %d", d.Uint16(d.Find(value, 4)), d.Uint64(d.Find(value, 5)))
	case 6:
		return fmt.Sprint(d.Uint32(value))
	case 7:
		return fmt.Sprint(d.NativeUint16(value))
	case 8:
		return fmt.Sprint(d.NativeUint32(value))
	}
	return attr.String(value)
}

func TestDecodeReportsWhatIsTruncated(t *testing.T) {
	var e attr.Encoder
	e.OpenMessage(1, 0)
	e.NetfilterHeader(unix.NFPROTO_IPV4, 0)
	e.String(1, "abc")
	e.CloseMessage()
	for n := range e.Bytes {
		var d attr.Decoder
		for range d.Messages(e.Bytes[:n]) {
			t.Errorf("a message of %d bytes was found in %d", len(e.Bytes), n)
		}
		if n > 0 && !errors.Is(d.Err(), attr.ErrTruncated) {
			t.Errorf("of %d bytes: %v", n, d.Err())
		}
	}
	attributes := e.Bytes[attr.MessageHeaderLen+attr.BodyHeaderLen:]
	for n := range attributes {
		var d attr.Decoder
		for range d.Attributes(attributes[:n]) {
			t.Errorf("an attribute of %d bytes was found in %d", len(attributes), n)
		}
		if n > 0 && !errors.Is(d.Err(), attr.ErrTruncated) {
			t.Errorf("of %d bytes: %v", n, d.Err())
		}
	}
	for n := range attr.BodyHeaderLen {
		var d attr.Decoder
		if d.Body(e.Bytes[:n]); d.Err() == nil {
			t.Errorf("a body of %d bytes has a header", n)
		}
	}
	var d attr.Decoder
	if d.Body(e.Bytes[:attr.BodyHeaderLen]); d.Err() != nil {
		t.Errorf("a body without attributes: %v", d.Err())
	}
}

func TestDecodeReportsNumbersOfAnotherLength(t *testing.T) {
	for name, decode := range map[string]func(*attr.Decoder, []byte) bool{
		"uint8":         func(d *attr.Decoder, b []byte) bool { return d.Uint8(b) == 0 },
		"uint16":        func(d *attr.Decoder, b []byte) bool { return d.Uint16(b) == 0 },
		"uint32":        func(d *attr.Decoder, b []byte) bool { return d.Uint32(b) == 0 },
		"uint64":        func(d *attr.Decoder, b []byte) bool { return d.Uint64(b) == 0 },
		"native uint16": func(d *attr.Decoder, b []byte) bool { return d.NativeUint16(b) == 0 },
		"native uint32": func(d *attr.Decoder, b []byte) bool { return d.NativeUint32(b) == 0 },
	} {
		var d attr.Decoder
		if zero := decode(&d, []byte{1, 2, 3}); !zero || !errors.Is(d.Err(), attr.ErrTruncated) {
			t.Errorf("%s of 3 bytes: zero %t, error %v", name, zero, d.Err())
		}
	}
}

func TestDecodeKeepsTheFirstError(t *testing.T) {
	var d attr.Decoder
	first := errors.New("first")
	d.Fail(first)
	d.Uint8(nil)
	if !errors.Is(d.Err(), first) {
		t.Errorf("error %v, want the first one", d.Err())
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	var e attr.Encoder
	e.Nested(1, func() { e.Uint32(2, 3) })
	if n := testing.AllocsPerRun(100, func() {
		var d attr.Decoder
		for _, list := range d.Attributes(e.Bytes) {
			for _, value := range d.Attributes(list) {
				d.Uint32(value)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// FuzzDecode proves that no bytes make the decoder panic or loop for ever.
func FuzzDecode(f *testing.F) {
	var e attr.Encoder
	e.OpenMessage(1, 0)
	e.Nested(1, func() { e.String(2, "abc") })
	e.CloseMessage()
	f.Add(e.Bytes)
	f.Add([]byte{3, 0, 0, 0})
	f.Fuzz(func(_ *testing.T, b []byte) {
		var d attr.Decoder
		for _, message := range d.Messages(b) {
			for _, value := range d.Attributes(message) {
				d.Find(value, 1)
			}
		}
	})
}
