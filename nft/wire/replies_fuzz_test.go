package wire

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

// captured are messages of a dump of a real kernel, about tables with our name that another
// program made.
func captured(t testing.TB) []message {
	t.Helper()
	text, err := os.ReadFile("testdata/replies.txt")
	if err != nil {
		t.Fatal(err)
	}
	var e attr.Encoder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var family, set string
		var kind uint16
		var data []byte
		if _, err := fmt.Sscanf(line, "%s %d %s %x", &family, &kind, &set, &data); err != nil {
			t.Fatal(err)
		}
		e.OpenMessage(unix.NFNL_SUBSYS_NFTABLES<<8|kind, 0)
		e.Bytes = append(e.Bytes, data...)
		e.CloseMessage()
	}
	return split(t, e.Bytes)
}

// FuzzDecode gives the decoders a whole dump as a broken or hostile kernel might send it:
// cut, garbled, in any order, of tables that other programs filled. They must not panic,
// nor return more than was sent. A state must be reachable from the result, and the parts
// that are ours must equal what we would write.
func FuzzDecode(f *testing.F) {
	_, batch := load(1)
	f.Add(encoded(f, batch).Bytes)
	for messages := range slices.Chunk(captured(f), 12) {
		var dump []byte
		for _, m := range messages {
			dump = append(dump, m.raw...)
		}
		f.Add(dump)
	}
	f.Fuzz(func(t *testing.T, dump []byte) {
		have, _ := decodeDump(dump) // an error does not stop it
		found := 0
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

// checkDecoded checks that our parts of a table are read again unchanged when they are
// written, and counts them.
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

// FuzzElements checks that every element that is read is written again unchanged.
func FuzzElements(f *testing.F) {
	rules, _ := load(12)
	for id, list := range rules.Elements() {
		if !id.Local && id.Slot == 0 && len(list) > 0 {
			m := split(f, encoded(f, nft.Batch{nft.AddElements{Set: id, Elements: list[:min(5, len(list))]}}).Bytes)[1]
			f.Add(id.Family == model.IPv6, uint8(id.Kind), m.data())
		}
	}
	for _, m := range captured(f) {
		if m.kind&0xff == unix.NFT_MSG_NEWSETELEM {
			id, _ := listedSet(m.data())
			f.Add(id.Family == model.IPv6, uint8(id.Kind), m.data())
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
				if el.Comment = string(el.AppendComment(nil)); !id.Layout().Comments {
					el.Comment = ""
				}
				ours = append(ours, el)
			}
		}
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
