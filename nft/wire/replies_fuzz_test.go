package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

// reply is a message as the kernel answers with: of a dump of a set's elements if
// that is its kind.
type reply struct {
	kind uint16
	set  nft.SetID
	data []byte // what follows the netlink header
}

// captured are replies of a real kernel, about tables with our name that another
// program made.
func captured(t testing.TB) []reply {
	t.Helper()
	file, err := os.Open("testdata/replies.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out []reply
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var family, set, data string
		var r reply
		if _, err := fmt.Sscan(lines.Text(), &family, &r.kind, &set, &data); err != nil {
			t.Fatal(err)
		}
		if family == nft.FamilyName(model.IPv6) {
			r.set.Family = model.IPv6
		}
		if set != "-" {
			r.set, _ = nft.SetNamed(r.set.Family, set)
		}
		if r.data, err = hex.DecodeString(data); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		t.Fatal("no replies")
	}
	return out
}

// written are messages of a batch of ours, as if the kernel answered with them;
// of those that there are many of a kind, some, and no long ones: the fuzzer takes
// its time with them.
func written(t testing.TB) []reply {
	t.Helper()
	_, batch := load(12)
	var out []reply
	for i, m := range split(t, encoded(t, batch).Bytes) {
		r := reply{kind: m.kind & 0xff, data: m.data()}
		if m.family == unix.NFPROTO_IPV6 {
			r.set.Family = model.IPv6
		}
		many := r.kind == unix.NFT_MSG_NEWCHAIN || r.kind == unix.NFT_MSG_NEWRULE
		if m.kind>>8 != unix.NFNL_SUBSYS_NFTABLES || many && i%11 != 0 || len(r.data) > 1000 {
			continue
		}
		if r.kind == unix.NFT_MSG_NEWSETELEM {
			name := attr.String(attrs(t, m.raw, attr.MessageHeaderLen+attr.BodyHeaderLen, len(m.raw))[1].value)
			var known bool
			if r.set, known = nft.SetNamed(r.set.Family, name); !known {
				continue // a rule's own map
			}
		}
		out = append(out, r)
	}
	return out
}

// pack puts replies into one text for the fuzzer to work on, unpack reads it: the
// kind, what is asked for, the length, the reply.
func pack(replies []reply) []byte {
	var out []byte
	for _, r := range replies {
		out = append(out, uint8(r.kind), uint8(r.set.Kind)<<2|uint8(r.set.Family)<<1)
		if r.set.Local {
			out[len(out)-1] |= 1
		}
		out = binary.LittleEndian.AppendUint16(out, uint16(len(r.data)))
		out = append(out, r.data...)
	}
	return out
}

func unpack(b []byte) []reply {
	var out []reply
	for len(b) >= 4 {
		r := reply{kind: uint16(b[0]), set: nft.SetID{
			Family: model.Family(b[1] >> 1 & 1), Kind: nft.SetKind(b[1]>>2) % (nft.SetAllowedSources + 1), Local: b[1]&1 > 0 && b[1]>>2 >= uint8(nft.SetEndpoints),
		}}
		n := min(int(binary.LittleEndian.Uint16(b[2:])), len(b)-4)
		r.data, b = b[4:4+n], b[4+n:]
		out = append(out, r)
	}
	return out
}

// FuzzDecode gives the decoders a whole dump as a broken or hostile kernel might
// send it: cut, garbled, in any order, of tables that other programs filled.
// Whatever comes of it must not panic or be more than was sent; a state must get
// there from it, and what is ours in it must be what we would write.
func FuzzDecode(f *testing.F) {
	all := append(written(f), captured(f)...)
	f.Add(pack(written(f)))
	f.Add(pack(captured(f)))
	for i := 0; i < len(all); i += 12 {
		f.Add(pack(all[i:min(i+12, len(all))]))
	}
	f.Fuzz(func(t *testing.T, dump []byte) {
		var have nft.Tables
		found := 0
		for _, r := range unpack(dump) {
			decodeReply(&have, r)
		}
		for f, table := range have {
			if table != nil {
				found += checkDecoded(t, model.Family(f), table)
			}
		}
		if found > len(dump) {
			t.Errorf("%d bytes became %d things", len(dump), found)
		}
		rules, repair := nft.Adopt(sampleConfig, have, sample(3))
		if _, err := Encode(repair); err != nil {
			t.Fatal(err)
		}
		if _, again := nft.Adopt(sampleConfig, rules.Tables(), sample(3)); len(again) > 0 {
			t.Errorf("once it is so, it is to become\n%s", again)
		}
	})
}

// decodeReply does what a reader of the kernel does with a reply.
func decodeReply(have *nft.Tables, r reply) {
	if r.kind != unix.NFT_MSG_NEWSETELEM {
		_ = Decode(have, r.set.Family, r.kind, r.data) // the rest of a dump is read all the same
		return
	}
	list, _ := DecodeElements(r.set, nil, r.data)
	table := tableOf(have, r.set.Family)
	state := table.Sets[r.set.Name()]
	if state.Shape.Fits(r.set) && !r.set.IsDynamic() {
		state.Elements = SortElements(r.set, append(state.Elements, list...))
		table.Sets[r.set.Name()] = state
	}
}

// checkDecoded has what is ours of a table be read again as it was when it is
// written, and counts what there is.
func checkDecoded(t *testing.T, f model.Family, table *nft.Table) int {
	n := len(table.Chains) + len(table.Sets)
	var ours nft.Batch
	want := nft.NewTable()
	for name, c := range table.Chains {
		n += len(c.Rules)
		if id := nft.ChainNamed(f, name); id.Kind != nft.ChainUnknown {
			if id.Name() != name {
				t.Errorf("chain %q is taken for %q", name, id.Name())
			}
			ours = append(ours, nft.AddChain{Chain: id})
			want.Chains[name] = nft.ChainState{Hook: id.Hook()}
		}
	}
	for name, s := range table.Sets {
		n += len(s.Elements)
		if id, known := nft.SetNamed(f, name); known && s.Shape.Fits(id) {
			ours = append(ours, nft.AddSet{Set: id, Size: s.Shape.Size})
			want.Sets[name] = nft.SetState{Shape: s.Shape}
		}
	}
	if len(ours) == 0 {
		return n
	}
	var again nft.Tables
	messages := split(t, encoded(t, ours).Bytes)
	for _, m := range messages[1 : len(messages)-1] {
		if err := Decode(&again, f, m.kind&0xff, m.data()); err != nil {
			t.Fatal(err)
		}
	}
	got := again[f]
	if !reflect.DeepEqual(got.Chains, want.Chains) || !reflect.DeepEqual(got.Sets, want.Sets) {
		t.Errorf("is read again as %+v, want %+v", got, want)
	}
	return n
}

// FuzzElements has every element that is read be written again as it was.
func FuzzElements(f *testing.F) {
	for kind := range nft.SetConnections { // see FuzzCounted
		for _, family := range model.Families {
			id := nft.SetID{Family: family, Kind: kind}
			m := split(f, encoded(f, nft.Batch{nft.AddElements{Set: id, Elements: randomElements(id, 5)}}).Bytes)[1]
			f.Add(family == model.IPv6, uint8(kind), m.data())
		}
	}
	for _, r := range captured(f) {
		if r.kind == unix.NFT_MSG_NEWSETELEM {
			f.Add(r.set.Family == model.IPv6, uint8(r.set.Kind), r.data)
		}
	}
	f.Fuzz(func(t *testing.T, v6 bool, set uint8, data []byte) {
		id := nft.SetID{Kind: nft.SetKind(set % uint8(nft.SetConnections))}
		if v6 {
			id.Family = model.IPv6
		}
		list, err := DecodeElements(id, nil, data)
		if len(list) > len(data)/attr.HeaderLen {
			t.Fatalf("%d bytes became %d elements", len(data), len(list))
		}
		var ours []nft.Element
		for _, el := range SortElements(id, list) {
			unknown := el.Value.Verdict == nft.VerdictGoto && el.Value.Chain.Kind == nft.ChainUnknown
			bare := el.Value == nft.Value{} && id.Layout().Content != nft.ContentNone
			if el.Key != (nft.Key{}) && !unknown && !bare { // those are never written
				el.Comment = string(el.AppendComment(nil))
				ours = append(ours, el)
			}
		}
		ours = asRead(id, ours)
		if err != nil || len(ours) == 0 {
			return
		}
		m := split(t, encoded(t, nft.Batch{nft.AddElements{Set: id, Elements: ours}}).Bytes)[1]
		again, err := DecodeElements(id, nil, m.data())
		if again = SortElements(id, again); err != nil || !reflect.DeepEqual(again, ours) {
			t.Errorf("%v is read again as %v: %v", ours, again, err)
		}
	})
}
