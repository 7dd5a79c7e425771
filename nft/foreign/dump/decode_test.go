package dump

import (
	"encoding/binary"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/wire"
)

func attribute(kind uint16, value []byte) []byte {
	var e attr.Encoder
	e.Data(kind, value)
	return e.Bytes
}

// ruleOf returns a message with expressions, as the kernel sends one.
func ruleOf(t testing.TB, list ...expr.Any) []byte {
	var all []byte
	for _, e := range list {
		b, err := expr.Marshal(unix.NFPROTO_IPV4, e)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, attribute(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, b)...)
	}
	return append([]byte{unix.NFPROTO_IPV4, 0, 0, 0}, attribute(unix.NFTA_RULE_EXPRESSIONS|unix.NLA_F_NESTED, all)...)
}

// FuzzReplies proves that no answer makes a decoder panic.
func FuzzReplies(f *testing.F) {
	f.Add(ruleOf(f, &expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, &expr.Verdict{Kind: expr.VerdictDrop},
		&expr.Cmp{Register: 1, Data: []byte{1}}, &expr.Lookup{SetName: "s"}, &expr.Dynset{SetName: "s", Exprs: []expr.Any{&expr.Counter{}}}))
	key := attribute(unix.NFTA_SET_ELEM_KEY|unix.NLA_F_NESTED, attribute(unix.NFTA_DATA_VALUE, []byte{1, 2, 3, 4}))
	for _, message := range everyRule(f) {
		f.Add(message)
	}
	f.Add(append([]byte{2, 0, 0, 0}, attribute(unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED, attribute(1, key))...))
	f.Fuzz(func(t *testing.T, data []byte) {
		var list intervals
		for _, fn := range []func(*attr.Decoder, message){
			func(d *attr.Decoder, m message) {
				r := decodeRule(d, m)
				// What is shown of it can be printed to a terminal.
				if text := r.Text(); strings.ContainsAny(text, "\x00\x1b\n\r") {
					t.Errorf("not fit for a terminal: %q", text)
				}
			},
			func(d *attr.Decoder, m message) { _ = seesIP(decodeChain(d, m)) },
			new(set).decode,
			func(d *attr.Decoder, m message) { eachElement(d, m, func(e element) { list = append(list, e) }) },
		} {
			_ = decode(data, fn)
		}
		list.find([]byte{1, 2, 3, 4})
	})
}

func TestIntervalsFindTheIntervalOfAKey(t *testing.T) {
	mark := func(n byte, end bool, comment string) element {
		return element{key: []byte{10, n}, end: end, Element: simulate.Element{Comment: comment}}
	}
	list := intervals{mark(2, false, "two"), mark(4, true, ""), mark(4, false, "four"), mark(6, true, ""), mark(9, false, "nine")}
	for n, want := range map[byte]string{1: "", 2: "two", 3: "two", 4: "four", 5: "four", 6: "", 8: "", 9: "nine", 200: "nine"} {
		if got := list.find([]byte{10, n}); (got != nil) != (want != "") || got != nil && got.Comment != want {
			t.Errorf("%d: %+v, want %q", n, got, want)
		}
	}
}

// chainOf returns a message with a base chain of an interface, as the kernel sends one.
func chainOf(family uint8, hook uint32, devices []byte) message {
	hooks := slices.Concat(
		attribute(unix.NFTA_HOOK_HOOKNUM, binary.BigEndian.AppendUint32(nil, hook)),
		attribute(unix.NFTA_HOOK_PRIORITY, binary.BigEndian.AppendUint32(nil, 7)),
		attribute(hookDevices|unix.NLA_F_NESTED, devices),
	)
	return message{family, slices.Concat(
		attribute(unix.NFTA_CHAIN_TABLE, []byte("guard\x00")),
		attribute(unix.NFTA_CHAIN_NAME, []byte("in\x00")),
		attribute(unix.NFTA_CHAIN_HOOK|unix.NLA_F_NESTED, hooks),
	)}
}

func TestDecodeBaseChainReadsDevices(t *testing.T) {
	devices := slices.Concat(
		attribute(deviceName, []byte("eth1\x00")), attribute(deviceName, []byte("eth2\x00")), attribute(devicePrefix, []byte("veth")))
	for _, tc := range []struct {
		family uint8
		hook   uint32
	}{{unix.NFPROTO_NETDEV, 0}, {unix.NFPROTO_INET, 5}} {
		var d attr.Decoder
		c := decodeChain(&d, chainOf(tc.family, tc.hook, devices))
		if d.Err() != nil || !seesIP(c) || c.Hook != simulate.HookIngress || c.Priority != 7 || !slices.Equal(c.Devices, []string{"eth1", "eth2", "veth*"}) {
			t.Errorf("family %d: %+v, %v", tc.family, c, d.Err())
		}
	}
}

// FuzzLegacy decodes any bytes as the entries of a table.
func FuzzLegacy(f *testing.F) {
	f.Add(legacyEntry(legacyFamilies[0].target, "ERROR", []byte("MINE")...))
	f.Fuzz(func(_ *testing.T, b []byte) {
		for _, l := range legacyFamilies {
			_ = (&Table{}).decodeLegacy(b, l.target)
		}
	})
}

func legacyEntry(targetOffset int, target string, data ...byte) []byte {
	const header = 4 // of the offsets, after the conditions
	b := make([]byte, targetOffset+header, 256)
	binary.NativeEndian.PutUint16(b[targetOffset:], uint16(len(b)))
	b = append(b, make([]byte, 32)...)
	copy(b[targetOffset+header+2:], target)
	b = append(b, append(data, 0, 0, 0, 0)...)
	binary.NativeEndian.PutUint16(b[targetOffset+2:], uint16(len(b)))
	return b
}

func TestLegacyChainsAreNamed(t *testing.T) {
	verdict := func(v int32) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(v)) }
	for _, l := range legacyFamilies {
		accept, end := legacyEntry(l.target, "", verdict(-2)...), legacyEntry(l.target, "ERROR", []byte("ERROR")...)
		mine, back := legacyEntry(l.target, "ERROR", []byte("MINE")...), legacyEntry(l.target, "", verdict(-5)...)
		for _, tc := range []struct {
			entries [][]byte
			chains  int
			inert   bool
		}{
			{[][]byte{accept, accept, end}, 0, true},
			{[][]byte{accept, mine, back, end}, 1, true},
			{[][]byte{legacyEntry(l.target, "", verdict(-1)...), end}, 0, false},        // policy drop
			{[][]byte{legacyEntry(l.target, "", verdict(152)...), mine, end}, 1, false}, // a jump
			{[][]byte{accept, mine, legacyEntry(l.target, "DNAT"), back, end}, 1, false},
		} {
			var got Table
			err := got.decodeLegacy(slices.Concat(tc.entries...), l.target)
			if err != nil || len(got.Chains) != tc.chains || tc.chains == 1 && got.Chains[0].Name != "MINE" || got.Inert != tc.inert {
				t.Errorf("%+v: %+v, %v", tc, got, err)
			}
		}
		if err := (&Table{}).decodeLegacy(accept[:len(accept)-1], l.target); err == nil {
			t.Error("no error for an entry that is cut")
		}
	}
}

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
