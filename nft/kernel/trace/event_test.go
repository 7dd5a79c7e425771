package trace

import (
	"encoding/hex"
	"math"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// recorded returns recorded messages of the kernel by the packet that they are about.
func recorded(t testing.TB) map[string][][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/events.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][][]byte{}
	name := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "== "):
			name = line[3:]
		default:
			b, err := hex.DecodeString(line)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = append(out[name], b)
		}
	}
	return out
}

func TestDecodeRecordedEvents(t *testing.T) {
	for name, messages := range recorded(t) {
		first, err := decodeEvent(messages[0])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if first.Packet == nil || first.Chain.Name != "begin-prerouting" || first.Kind != KindRule || first.Rule == 0 ||
			first.Verdict.Code != unix.NFT_CONTINUE || first.In == 0 || first.Out != 0 {
			t.Errorf("%s: begins with %+v", name, first)
		}
		parts := strings.Split(name, "-")
		family, protocol := parts[len(parts)-2], parts[len(parts)-1]
		want := map[string]string{"ipv4": " 10.244.1.4:", "ipv6": " [fd00:10:244:1::4]:"}[family]
		to := map[string]string{"ipv4": " > 10.96.0.10:80", "ipv6": " > [fd00:10:96::a]:80"}[family]
		text := first.Packet.String()
		if !strings.HasPrefix(text, strings.ToUpper(protocol)+want) || !strings.HasSuffix(text, to) {
			t.Errorf("%s: the packet is %s", name, text)
		}
		last, err := decodeEvent(messages[len(messages)-1])
		if err != nil || last.Chain.Table.String() != "inet firewall" || !last.Verdict.drops() || last.ID != first.ID {
			t.Errorf("%s: ends with %+v, %v", name, last, err)
		}
	}
}

func TestDecodeEventRejectsTruncatedMessages(t *testing.T) {
	for name, messages := range recorded(t) {
		for _, b := range messages {
			whole, err := decodeEvent(b)
			if err != nil {
				t.Fatal(err)
			}
			for n := range b {
				if part, err := decodeEvent(b[:n]); err == nil && part.Chain != whole.Chain {
					t.Fatalf("%s: %d of %d bytes read as %+v", name, n, len(b), part)
				}
			}
		}
	}
}

func TestVerdictString(t *testing.T) {
	for _, tc := range []struct {
		verdict Verdict
		want    string
		drops   bool
	}{
		{Verdict{}, "drop", true},
		{Verdict{Code: int32(unix.ECONNREFUSED) << 16}, "drop", true}, // with an error for the sender
		{Verdict{Code: 1}, "accept", false},
		{Verdict{Code: 2}, "stolen", false},
		{Verdict{Code: 7<<16 | 3}, "queue to 7", false},
		{Verdict{unix.NFT_JUMP, "a"}, "jump a", false},
		{Verdict{unix.NFT_GOTO, "b"}, "goto b", false},
		{Verdict{Code: unix.NFT_RETURN}, "return", false},
		{Verdict{Code: unix.NFT_CONTINUE}, "continue", false},
		{Verdict{Code: math.MinInt32}, "verdict -2147483648", false},
	} {
		if got := tc.verdict.String(); got != tc.want || tc.verdict.drops() != tc.drops {
			t.Errorf("%+v: %q, drops %t", tc.verdict, got, tc.verdict.drops())
		}
	}
}

// FuzzDecodeEvent decodes any bytes as a trace. Nothing panics, and the result can be
// assembled and printed to a terminal.
func FuzzDecodeEvent(f *testing.F) {
	for _, messages := range recorded(f) {
		for _, b := range messages {
			f.Add(b)
		}
	}
	f.Add([]byte{unix.NFPROTO_IPV4, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEvent(b)
		if err != nil {
			return
		}
		text := e.Chain.Table.Name + e.Chain.Name + e.Verdict.String()
		if e.Packet != nil {
			text += e.Packet.String()
		}
		if strings.ContainsAny(text, "\x00\x1b\n\r") {
			t.Errorf("not fit for a terminal: %q", text)
		}
		var a assembler
		a.add(resolvedEvent{Event: e}, now)
		a.add(resolvedEvent{Event: e}, now)
		for _, w := range a.flush() {
			w.End()
		}
	})
}
