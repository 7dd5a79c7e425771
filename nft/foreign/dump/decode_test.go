package dump

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/simulate"
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
