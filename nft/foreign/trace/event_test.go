package trace

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/foreign/simulate"
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

func TestDecodeEventRejectsTruncatedMessages(t *testing.T) {
	for name, messages := range recorded(t) {
		for _, b := range messages {
			whole, err := decodeEvent(b)
			if err != nil {
				t.Fatal(err)
			}
			for n := range b {
				if part, err := decodeEvent(b[:n]); err == nil && part.at != whole.at {
					t.Fatalf("%s: %d of %d bytes read as %+v", name, n, len(b), part)
				}
			}
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
		text := e.at.Table.Name + e.Chain + simulate.VerdictText(&e.Verdict)
		if e.packet != nil {
			text += e.packet.String()
		}
		if strings.ContainsAny(text, "\x00\x1b\n\r") {
			t.Errorf("not fit for a terminal: %q", text)
		}
		var a assembler
		a.add(resolvedEvent{event: e}, now)
		a.add(resolvedEvent{event: e}, now)
		for _, w := range a.flush() {
			w.End()
		}
	})
}
