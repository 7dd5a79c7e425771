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
	e.Nested(2, func() {
		e.String(3, "other")
		e.String(4, "first")
		e.String(4, "last")
	})
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
			if kind == 2 {
				value = d.Find(value, 4)
			}
			got = append(got, fmt.Sprintf("%d: %s", kind, attr.String(value)))
		}
	}
	want := []string{"{Type:10 Flags:5 Sequence:0}", "1: abc", "2: last", "{Type:11 Flags:6 Sequence:1}"}
	if !slices.Equal(got, want) || d.Err() != nil {
		t.Errorf("decoded %q, %v, want %q", got, d.Err(), want)
	}
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

// FuzzDecode proves that no bytes make the decoder panic or loop forever.
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
