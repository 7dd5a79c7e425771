package nft

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"
	"unique"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// webPort is the Service port of random elements.
var webPort = model.ServicePortName{ServiceName: model.ServiceName{Namespace: "shop", Name: "web"}, Port: "http"}

// randomElements are elements that a set of that identity may hold, in the order
// of their keys.
func randomElements(id SetID, n int) []Element {
	r := rand.New(rand.NewPCG(1, uint64(id.Kind)))
	seen := map[Key]bool{}
	var out []Element
	for i := range n {
		el := Element{Key: randomKey(r, id, i), Value: randomValue(r, id, i), Service: &webPort}
		if !seen[el.Key] {
			seen[el.Key] = true
			out = append(out, el)
		}
	}
	return sorted(out)
}

// randomKey is key number i of a set.
func randomKey(r *rand.Rand, id SetID, i int) (k Key) {
	l := id.layout()
	for _, f := range l.key {
		switch f {
		case fieldProtocol:
			k.Protocol = model.Protocols[r.IntN(3)]
		case fieldPort:
			k.Port = uint16(r.Uint32())
		case fieldPick:
			k.Pick = r.Uint32N(1 << 20)
		case fieldSource, fieldDestination:
			k.Addr = sampleAddr(id.Family, 96, i)
		case fieldClient:
			k.Source = unique.Make(netip.PrefixFrom(sampleAddr(id.Family, 16, i), id.sourceBits()).Masked())
		}
	}
	if l.interval {
		k.Bits = uint8(id.family().bits())
	}
	return k
}

// randomValue is value number i of a set.
func randomValue(r *rand.Rand, id SetID, i int) Value {
	endpoint := netip.AddrPortFrom(sampleAddr(id.Family, 96, r.IntN(1<<16)), uint16(r.Uint32()))
	switch id.layout().content {
	case contentVerdict:
		switch i % 3 {
		case 0:
			return Value{Verdict: VerdictDrop}
		case 1:
			sticky := unique.Make(Sticky{endpoint, model.Protocols[r.IntN(3)], r.Uint32()})
			return goesTo(ChainID{Family: id.Family, Kind: ChainStickyEndpoint, Local: i%2 == 0, Sticky: sticky})
		}
		return goesTo(ChainID{
			Family: id.Family, Kind: ChainService, Local: i%2 == 0, NodePort: i%5 == 0,
			Method: method(r.IntN(int(methods))), N: r.Uint32N(5000),
		})
	case contentEndpoint:
		return Value{Endpoint: endpoint}
	case contentAddress:
		return Value{Endpoint: endpoint}.address()
	case contentPort:
		return Value{Endpoint: endpoint}.port()
	case contentNone:
	}
	return Value{}
}

// asRead is what is read of elements that were written.
func asRead(id SetID, list []Element) []Element {
	out := make([]Element, len(list))
	for i, el := range list {
		comment := ""
		if id.layout().comments {
			comment = string(el.AppendComment(nil))
		}
		el.Service, el.Comment = nil, comment
		out[i] = el
	}
	return out
}

func compareElements(t *testing.T, got, want []Element) {
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

func TestWhatIsEncodedDecodesToTheState(t *testing.T) {
	for _, n := range []int{0, 1, 12, 500} {
		rules, batch := load(n)
		got := decodeAll(t, encoded(t, batch).Bytes)
		want := rules.Tables()
		for _, f := range model.Families {
			if !got[f].Counter {
				t.Errorf("%d Services, %s: there is no counter", n, families[f].name)
			}
			if !reflect.DeepEqual(got[f].Chains, want[f].Chains) {
				t.Errorf("%d Services, %s: chains are read as %v, want %v", n, families[f].name, got[f].Chains, want[f].Chains)
			}
			for name, set := range want[f].Sets {
				if got[f].Sets[name].Shape != set.Shape {
					t.Errorf("%d Services, %s %s: the shape is read as %+v, want %+v", n, families[f].name, name, got[f].Sets[name].Shape, set.Shape)
				}
				compareElements(t, got[f].Sets[name].Elements, set.Elements)
			}
			if len(got[f].Sets) != len(want[f].Sets) {
				t.Errorf("%d Services, %s: %d sets are read, want %d", n, families[f].name, len(got[f].Sets), len(want[f].Sets))
			}
		}
	}
}

// decodeAll reads the messages of a batch as if the kernel dumped them.
func decodeAll(t *testing.T, b []byte) Tables {
	t.Helper()
	var tables Tables
	for _, m := range split(t, b) {
		if m.kind>>8 != unix.NFNL_SUBSYS_NFTABLES {
			continue
		}
		f := model.IPv4
		if m.family == unix.NFPROTO_IPV6 {
			f = model.IPv6
		}
		if err := tables.Decode(f, m.kind&0xff, m.data()); err != nil {
			t.Fatal(err)
		}
		if m.kind&0xff == unix.NFT_MSG_NEWSETELEM {
			decodeInto(t, tables[f], f, &m)
		}
	}
	for f, table := range tables {
		for name, set := range table.Sets {
			if id, known := SetNamed(model.Family(f), name); known {
				set.Elements = SortElements(id, set.Elements)
				table.Sets[name] = set
			}
		}
	}
	return tables
}

// decodeInto adds the elements of a message to the set it names.
func decodeInto(t *testing.T, table *Table, f model.Family, m *message) {
	t.Helper()
	name := text(attrs(t, m.raw, headerLen+nfHeaderLen, len(m.raw))[1].value)
	id, known := SetNamed(f, name)
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

func TestMessagesOfOtherTablesAreNotOurs(t *testing.T) {
	_, batch := load(12)
	e, err := batch.EncodeCheck("another")
	if err != nil {
		t.Fatal(err)
	}
	var tables Tables
	for _, m := range split(t, e.Bytes)[1:] {
		if err := tables.Decode(model.IPv4, m.kind&0xff, m.data()); err != nil {
			t.Fatal(err)
		}
	}
	if tables != (Tables{}) {
		t.Errorf("they made tables %v", tables)
	}
}

func TestAMessageCutWithinAnAttributeIsRefused(t *testing.T) {
	_, batch := load(12)
	for _, m := range split(t, encoded(t, batch).Bytes) {
		if len(m.raw) > 2000 || m.kind>>8 == 0 || m.kind&0xff == unix.NFT_MSG_NEWSETELEM {
			continue
		}
		whole := map[int]bool{headerLen + nfHeaderLen: true}
		for _, a := range attrs(t, m.raw, headerLen+nfHeaderLen, len(m.raw)) {
			end := a.offset + attrLen + len(a.value)
			for n := end; n <= (end+3)&^3; n++ { // padding may be missing
				whole[n] = true
			}
		}
		for n := headerLen; n < len(m.raw); n++ {
			var tables Tables
			err := tables.Decode(model.IPv4, m.kind&0xff, m.raw[headerLen:n])
			if (err == nil) != whole[n] {
				t.Fatalf("%d of %d bytes of a message of kind %d: %v", n, len(m.raw), m.kind&0xff, err)
			}
		}
	}
}
