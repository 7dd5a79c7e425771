package xtables

import (
	"encoding/binary"
	"reflect"
	"slices"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/simulate"
	"kube-vmap/nft/simulate/xt"
)

// extensionOf returns a match or a target as the kernel has it.
func extensionOf(name string, revision uint8, data []byte) []byte {
	b := make([]byte, extensionData+len(data))
	copy(b[extensionName:], name)
	b[extensionName+extensionNameSize] = revision
	copy(b[extensionData:], data)
	binary.NativeEndian.PutUint16(b, uint16(len(b)))
	return b
}

// entryOf returns an entry that matches all packets.
func entryOf(f model.Family, matches, target []byte) []byte {
	l := layouts[f]
	b := slices.Concat(make([]byte, l.elements), matches, target)
	binary.NativeEndian.PutUint16(b[l.targetOffset:], uint16(l.elements+len(matches)))
	binary.NativeEndian.PutUint16(b[l.targetOffset+2:], uint16(len(b)))
	return b
}

func standard(verdict int32) []byte {
	return extensionOf("", 0, binary.NativeEndian.AppendUint32(nil, uint32(verdict)))
}

// example returns a table with the chain OUTPUT, whose policy is drop, and the chain MINE, to
// which its first rule jumps.
func example(f model.Family) *Table {
	mark := extensionOf("mark", 1, append(binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, 1), 3), 0, 0, 0, 0))
	jump := entryOf(f, mark, standard(0))
	policy := entryOf(f, nil, standard(verdictDrop))
	head := entryOf(f, nil, extensionOf(errorTarget, 0, []byte("MINE\x00\x00\x00\x00")))
	mine := len(jump) + len(policy) + len(head)
	binary.NativeEndian.PutUint32(jump[len(jump)-4:], uint32(mine))
	masquerade := entryOf(f, nil, extensionOf("MASQUERADE", 0, make([]byte, 24)))
	end := entryOf(f, nil, extensionOf(errorTarget, 0, []byte(errorTarget+"\x00")))
	t := &Table{Name: "nat", family: f, info: make([]byte, infoSize)}
	t.entries = slices.Concat(jump, policy, head, masquerade, entryOf(f, nil, standard(verdictReturn)), end)
	binary.NativeEndian.PutUint32(t.info[validHooksOffset:], 1<<uint(simulate.HookOutput))
	binary.NativeEndian.PutUint32(t.info[underflowOffset+4*int(simulate.HookOutput):], uint32(len(jump)))
	return t
}

func TestChainsOfATable(t *testing.T) {
	for _, f := range model.Families {
		got, err := example(f).Chains()
		if err != nil || len(got) != 2 || got[0].Name != "OUTPUT" || !got[0].Hooked || !got[0].Drop || got[1].Name != "MINE" || got[1].Hooked {
			t.Errorf("%s: %+v, %v", f, got, err)
		}
	}
}

func TestRulesOfATable(t *testing.T) {
	for _, f := range model.Families {
		r := &Rules{chains: map[simulate.Chain]rulesOf{}}
		if err := r.add(example(f)); err != nil {
			t.Fatal(err)
		}
		table := simulate.Table{Family: "legacy " + [...]string{"ip", "ip6"}[f], Name: "nat"}
		base := []simulate.BaseChain{{Chain: simulate.Chain{Table: table, Name: "OUTPUT"}, Type: "nat", Hook: simulate.HookOutput, Priority: -100, PolicyDrop: true}}
		want := map[simulate.Chain][]simulate.Rule{
			{Table: table, Name: "OUTPUT"}: {
				{Handle: 1, Expressions: []any{xt.Mark{Value: 1, Mask: 3}, &expr.Verdict{Kind: expr.VerdictJump, Chain: "MINE"}}},
			},
			{Table: table, Name: "MINE"}: {
				{Handle: 1, Expressions: []any{&expr.Masq{}}}, {Handle: 2, Expressions: []any{&expr.Verdict{Kind: expr.VerdictReturn}}},
			},
		}
		if !reflect.DeepEqual(r.base, base) || len(r.chains) != len(want) || r.IsEmpty() {
			t.Errorf("%s: %+v, %+v", f, r.base, r.chains)
		}
		for c, rules := range want {
			if got, err := r.Rules(c); err != nil || !reflect.DeepEqual(got, rules) {
				t.Errorf("%s: chain %s has %+v, %v", f, c.Name, got, err)
			}
		}
	}
}

func TestConditionsOfARule(t *testing.T) {
	b := example(model.IPv4)
	rule := b.entries
	copy(rule[4:], []byte{10, 1, 2, 128})       // destination
	copy(rule[12:], []byte{255, 255, 255, 128}) // its mask
	copy(rule[16:], "eth")                      // interface, then its mask
	copy(rule[48:], "\xff\xff\xff")
	binary.NativeEndian.PutUint16(rule[80:], unix.IPPROTO_UDP)
	rule[83] = invertIn
	e, err := b.entry(0)
	if err != nil {
		t.Fatal(err)
	}
	got := ruleDecoder{table: b}.conditions(e)
	want := []any{
		&expr.Payload{OperationType: expr.PayloadLoad, DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: []byte{255, 255, 255, 128}, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{10, 1, 2, 128}},
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte("eth")},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{17}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// FuzzTable proves that no blob makes the decoder panic, or return more than was read.
func FuzzTable(f *testing.F) {
	for _, family := range model.Families {
		e := example(family)
		f.Add(family == model.IPv6, e.info, e.entries)
		f.Add(family == model.IPv6, e.info, e.entries[:len(e.entries)-9])
		f.Add(family == model.IPv6, slices.Repeat([]byte{0xff}, infoSize), e.entries)
	}
	f.Fuzz(func(t *testing.T, v6 bool, info, entries []byte) {
		table := &Table{Name: "filter", info: append(make([]byte, 0, infoSize), info[:min(len(info), infoSize)]...), entries: entries}
		table.info = table.info[:infoSize]
		if v6 {
			table.family = model.IPv6
		}
		r := &Rules{chains: map[simulate.Chain]rulesOf{}}
		if err := r.add(table); err != nil {
			return
		}
		for c := range r.chains {
			_, _ = r.Rules(c)
		}
		if n := len(r.chains) + len(r.base); n > hookCount*2+len(entries)/extensionData {
			t.Errorf("%d bytes became %d chains", len(entries), n)
		}
	})
}
