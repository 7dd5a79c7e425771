package dump

import (
	"encoding/binary"
	"regexp"
	"strings"
	"testing"

	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"github.com/mdlayher/netlink"
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
		got, err := decodeRuleMessage(netlink.Message{Data: message})
		if err != nil || got.Text() != want {
			t.Errorf("read  %s, %v\nwant  %s", got.Text(), err, want)
		}
	}
}

func TestDecodeRejectsTruncatedRules(t *testing.T) {
	for text, message := range everyRule(t) {
		const fingerprint = 16 // the last attribute, which does not affect the text
		for n := range len(message) - fingerprint {
			if r, err := decodeRuleMessage(netlink.Message{Data: message[:n]}); err == nil && strings.HasPrefix(r.Text(), text) {
				t.Errorf("%d of %d bytes read as %q", n, len(message), r.Text())
			}
		}
	}
}

func TestTextNamesMatchesAndTargetsOfIPTables(t *testing.T) {
	info := xt.Unknown(make([]byte, 40))
	comment := xt.Unknown(append([]byte("why"), make([]byte, 253)...))
	got, err := decodeRuleMessage(netlink.Message{Data: ruleOf(t,
		&expr.Match{Name: "tcp", Info: &info}, &expr.Match{Name: "comment", Info: &comment}, &expr.Match{Name: "other", Info: &info},
		&expr.Counter{}, &expr.Limit{Rate: 5, Unit: expr.LimitTimeSecond, Burst: 7}, &expr.Exthdr{}, &expr.Target{Name: "REJECT", Info: &info},
	)})
	const want = "-m tcp -m other counter limit rate 5/second burst 7 packets (exthdr) -j REJECT"
	if err != nil || got.Text() != want || got.Comment() != "why" {
		t.Errorf("read  %s, comment %q, %v\nwant  %s", got.Text(), got.Comment(), err, want)
	}
}
