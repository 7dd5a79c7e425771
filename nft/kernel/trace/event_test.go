package trace

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/simulate"
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
		if first.packet == nil || first.Chain != "begin-prerouting" || first.Kind != KindRule || first.Rule.Handle == 0 ||
			first.Verdict.Kind != expr.VerdictContinue || first.in == 0 || first.out != 0 {
			t.Errorf("%s: begins with %+v", name, first)
		}
		parts := strings.Split(name, "-")
		family, protocol := parts[len(parts)-2], parts[len(parts)-1]
		want := map[string]string{"ipv4": "10.244.1.4:", "ipv6": "[fd00:10:244:1::4]:"}[family]
		to := map[string]string{"ipv4": " -> 10.96.0.10:80/", "ipv6": " -> [fd00:10:96::a]:80/"}[family]
		text := first.packet.String()
		if !strings.HasPrefix(text, want) || !strings.HasSuffix(text, to+protocol) {
			t.Errorf("%s: the packet is %s", name, text)
		}
		last, err := decodeEvent(messages[len(messages)-1])
		if err != nil || last.at.Table.String() != "inet firewall" || simulate.Decision(&last.Verdict) != expr.VerdictDrop || last.id != first.id {
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
