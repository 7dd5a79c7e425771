package ruletext

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

// anonymous matches an anonymous set in a rule; its elements are in other messages.
var anonymous = regexp.MustCompile(`(vmap|l4proto) \{[^}]*\}`)

// everyRule returns one of each kind of our rules: the message by its text.
func everyRule(t testing.TB) map[string][]byte {
	t.Helper()
	configs := []nft.Config{
		{MasqueradeMark: nft.DefaultMasqueradeMark, DropInvalid: true},
		{MasqueradeMark: 1, PodInterface: nft.Interface{Name: "cali", Prefix: true}},
		{MasqueradeMark: 1, PodInterface: nft.Interface{Name: "cni0"}},
	}
	out := map[string][]byte{}
	for _, c := range configs {
		for _, op := range nft.Sample(c) {
			add, isRule := op.(nft.AddRule)
			if !isRule {
				continue
			}
			e, err := wire.Encode(nft.Batch{add})
			if err != nil {
				t.Fatal(err)
			}
			text := anonymous.ReplaceAllString(add.Rule.String(), "$1 {...}")
			out[text] = ruleIn(e.Bytes)
		}
	}
	return out
}

// ruleIn returns the message of a batch that adds a rule.
func ruleIn(b []byte) []byte {
	for len(b) > unix.SizeofNlMsghdr {
		n := binary.NativeEndian.Uint32(b)
		if b[4] == unix.NFT_MSG_NEWRULE && b[5] == unix.NFNL_SUBSYS_NFTABLES {
			return b[unix.SizeofNlMsghdr:n]
		}
		b = b[n:]
	}
	return nil
}

func TestDecodePrintsOurRulesAsNftDoes(t *testing.T) {
	rules := everyRule(t)
	if len(rules) < 40 {
		t.Fatalf("only %d rules", len(rules))
	}
	for want, message := range rules {
		got, err := Decode(message)
		if err != nil || got.Text != want {
			t.Errorf("read  %s, %v\nwant  %s", got.Text, err, want)
		}
		if got.Rejects != regexp.MustCompile(`reject( with.*)?$`).MatchString(want) && !strings.Contains(want, "goto") {
			t.Errorf("%s: rejects is %t", want, got.Rejects)
		}
	}
}

func TestDecodeRejectsTruncatedRules(t *testing.T) {
	for text, message := range everyRule(t) {
		const fingerprint = 16 // the last attribute, which does not affect the text
		for n := range len(message) - fingerprint {
			if r, err := Decode(message[:n]); err == nil && strings.HasPrefix(r.Text, text) {
				t.Errorf("%d of %d bytes read as %q", n, len(message), r.Text)
			}
		}
	}
}

func TestPrefixOfMask(t *testing.T) {
	for _, tc := range []struct{ address, mask, want string }{
		{"10.0.0.0", "255.0.0.0", "10.0.0.0/8"},
		{"10.1.2.3", "255.255.255.255", "10.1.2.3/32"},
		{"10.0.0.0", "255.254.0.0", "10.0.0.0/15"},
		{"10.0.0.0", "255.0.255.0", ""},
		{"10.0.0.0", "253.0.0.0", ""},
		{"fd00::", "ffff:fff0::", "fd00::/28"},
	} {
		got, ok := prefix(netip.MustParseAddr(tc.address).AsSlice(), netip.MustParseAddr(tc.mask).AsSlice())
		if got != tc.want || ok != (tc.want != "") {
			t.Errorf("%s & %s is %q, want %q", tc.address, tc.mask, got, tc.want)
		}
	}
}

// FuzzDecode decodes any bytes as a rule. Nothing panics, and the result can be printed to a
// terminal.
func FuzzDecode(f *testing.F) {
	for _, message := range everyRule(f) {
		f.Add(message)
	}
	f.Add([]byte{unix.NFPROTO_INET, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(bytes.Clone(b))
		if err == nil && strings.ContainsAny(r.Text+r.Comment, "\x00\x1b\n\r") {
			t.Errorf("not fit for a terminal: %q, %q", r.Text, r.Comment)
		}
	})
}
