package wire

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"unique"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/nfttest"
)

// webPort is the Service port of random elements.
var webPort = model.ServicePortName{ServiceName: model.ServiceName{Namespace: "shop", Name: "web"}, Port: "http"}

// randomElements are elements that a set of that identity may hold, in the order
// of their keys.
func randomElements(id nft.SetID, n int) []nft.Element {
	r := rand.New(rand.NewPCG(1, uint64(id.Kind)))
	seen := map[nft.Key]bool{}
	var out []nft.Element
	for i := range n {
		el := nft.Element{Key: randomKey(r, id, i), Value: randomValue(r, id, i), Service: &webPort}
		if !seen[el.Key] {
			seen[el.Key] = true
			out = append(out, el)
		}
	}
	slices.SortFunc(out, func(a, b nft.Element) int { return nft.CompareKeys(a.Key, b.Key) })
	return out
}

// randomKey is key number i of a set.
func randomKey(r *rand.Rand, id nft.SetID, i int) (k nft.Key) {
	l := id.Layout()
	for _, f := range l.Key {
		switch f {
		case nft.FieldProtocol:
			k.Protocol = model.Protocols[r.IntN(3)]
		case nft.FieldPort:
			k.Port = uint16(r.Uint32())
		case nft.FieldPick:
			k.Pick = r.Uint32N(1 << 20)
		case nft.FieldSource, nft.FieldDestination:
			k.Addr = nfttest.Addr(id.Family, 96, i)
		case nft.FieldClient:
			k.Source = unique.Make(netip.PrefixFrom(nfttest.Addr(id.Family, 16, i), id.SourceBits()).Masked())
		}
	}
	if l.Interval {
		k.Bits = uint8(int(nft.FieldDestination.Len(id.Family)) * 8)
	}
	return k
}

// randomValue is value number i of a set.
func randomValue(r *rand.Rand, id nft.SetID, i int) nft.Value {
	endpoint := netip.AddrPortFrom(nfttest.Addr(id.Family, 96, r.IntN(1<<16)), uint16(r.Uint32()))
	switch id.Layout().Content {
	case nft.ContentVerdict:
		switch i % 3 {
		case 0:
			return nft.Value{Verdict: nft.VerdictDrop}
		case 1:
			chain := nft.ChainNamed(id.Family, "local-sticky-3-60s")
			chain.Seconds = r.Uint32()
			return nft.Value{Verdict: nft.VerdictGoto, Chain: chain}
		}
		chains := []string{"service-rr-3", "local-service-7", "node-port-service-maglev-251", "node-port-local-service-sticky-12-60s"}
		return nft.Value{Verdict: nft.VerdictGoto, Chain: nft.ChainNamed(id.Family, chains[r.IntN(len(chains))])}
	case nft.ContentEndpoint:
		return nft.Value{Endpoint: endpoint}
	case nft.ContentAddress:
		return nft.Value{Endpoint: netip.AddrPortFrom(endpoint.Addr(), 0)}
	case nft.ContentPort:
		return nft.Value{Endpoint: netip.AddrPortFrom(netip.Addr{}, endpoint.Port())}
	case nft.ContentNumber:
		return nft.Value{Number: r.Uint32()}
	case nft.ContentNone:
	}
	return nft.Value{}
}

// asRead is what is read of elements that were written.
func asRead(id nft.SetID, list []nft.Element) []nft.Element {
	out := make([]nft.Element, len(list))
	for i, el := range list {
		comment := ""
		if id.Layout().Comments {
			comment = string(el.AppendComment(nil))
		}
		el.Service, el.Comment = nil, comment
		out[i] = el
	}
	return out
}

func compareElements(t *testing.T, got, want []nft.Element) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d elements are read, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("element %d is read as %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestDecodeReturnsTheEncodedState(t *testing.T) {
	for _, n := range []int{0, 1, 12, 500} {
		rules, batch := load(n)
		got := decodeAll(t, encoded(t, batch).Bytes)
		want := rules.Tables()
		for _, f := range model.Families {
			if got[f].Counters != [nft.Counters]bool{true, true, true} {
				t.Errorf("%d Services, %s: there is no counter", n, nft.FamilyName(f))
			}
			if !reflect.DeepEqual(got[f].Chains, want[f].Chains) {
				t.Errorf("%d Services, %s: chains are read as %v, want %v", n, nft.FamilyName(f), got[f].Chains, want[f].Chains)
			}
			for name, set := range want[f].Sets {
				if got[f].Sets[name].Shape != set.Shape {
					t.Errorf("%d Services, %s %s: the shape is read as %+v, want %+v", n, nft.FamilyName(f), name, got[f].Sets[name].Shape, set.Shape)
				}
				compareElements(t, got[f].Sets[name].Elements, set.Elements)
			}
			if len(got[f].Sets) != len(want[f].Sets) {
				t.Errorf("%d Services, %s: %d sets are read, want %d", n, nft.FamilyName(f), len(got[f].Sets), len(want[f].Sets))
			}
		}
	}
}

// decodeAll reads the messages of a batch as if the kernel dumped them.
func decodeAll(t *testing.T, b []byte) nft.Tables {
	t.Helper()
	var tables nft.Tables
	for _, m := range split(t, b) {
		if m.kind>>8 != unix.NFNL_SUBSYS_NFTABLES {
			continue
		}
		f := model.IPv4
		if m.family == unix.NFPROTO_IPV6 {
			f = model.IPv6
		}
		if err := Decode(&tables, f, m.kind&0xff, m.data()); err != nil {
			t.Fatal(err)
		}
		if m.kind&0xff == unix.NFT_MSG_NEWSETELEM {
			decodeInto(t, tables[f], f, &m)
		}
	}
	for f, table := range tables {
		for name, set := range table.Sets {
			if id, known := nft.SetNamed(model.Family(f), name); known {
				set.Elements = SortElements(id, set.Elements)
				table.Sets[name] = set
			}
		}
	}
	return tables
}

// decodeInto adds the elements of a message to the set it names.
func decodeInto(t *testing.T, table *nft.Table, f model.Family, m *message) {
	t.Helper()
	name := attr.String(attrs(t, m.raw, attr.MessageHeaderLen+attr.BodyHeaderLen, len(m.raw))[1].value)
	id, known := nft.SetNamed(f, name)
	if !known { // a rule's own map
		return
	}
	set := table.Sets[name]
	var err error
	if set.Elements, err = DecodeElements(id, set.Elements, m.data()); err != nil {
		t.Fatal(err)
	}
	table.Sets[name] = set
}

func TestDecodeIgnoresOtherTables(t *testing.T) {
	_, batch := load(12)
	e, err := EncodeCheck(batch, "another")
	if err != nil {
		t.Fatal(err)
	}
	var tables nft.Tables
	for _, m := range split(t, e.Bytes)[1:] {
		if err := Decode(&tables, model.IPv4, m.kind&0xff, m.data()); err != nil {
			t.Fatal(err)
		}
	}
	if tables != (nft.Tables{}) {
		t.Errorf("they made tables %v", tables)
	}
}

func TestDecodeRefusesTruncatedMessages(t *testing.T) {
	_, batch := load(12)
	for _, m := range split(t, encoded(t, batch).Bytes) {
		if len(m.raw) > 2000 || m.kind>>8 == 0 || m.kind&0xff == unix.NFT_MSG_NEWSETELEM {
			continue
		}
		whole := map[int]bool{attr.MessageHeaderLen + attr.BodyHeaderLen: true}
		for _, a := range attrs(t, m.raw, attr.MessageHeaderLen+attr.BodyHeaderLen, len(m.raw)) {
			end := a.offset + attr.HeaderLen + len(a.value)
			for n := end; n <= (end+3)&^3; n++ { // padding may be missing
				whole[n] = true
			}
		}
		for n := attr.MessageHeaderLen; n < len(m.raw); n++ {
			var tables nft.Tables
			err := Decode(&tables, model.IPv4, m.kind&0xff, m.raw[attr.MessageHeaderLen:n])
			if (err == nil) != whole[n] {
				t.Fatalf("%d of %d bytes of a message of kind %d: %v", n, len(m.raw), m.kind&0xff, err)
			}
		}
	}
}
