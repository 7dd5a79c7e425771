package wire

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

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
		got, err := decodeDump(encoded(t, batch).Bytes)
		if err != nil {
			t.Fatal(err)
		}
		want := rules.Tables()
		for _, f := range model.Families {
			if got[f].Counters != [nft.Counters]bool{true, true, true, true} {
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

// decodeDump reads messages as if the kernel dumped them, and goes on after an error.
func decodeDump(b []byte) (have nft.Tables, err error) {
	var d attr.Decoder
	for h, data := range d.Messages(b) {
		if kind := h.Type & 0xff; kind != unix.NFT_MSG_NEWSETELEM {
			err = errors.Join(err, Decode(&have, familyOf(data), kind, data))
			continue
		}
		id, known := listedSet(data)
		if !known || id.IsDynamic() {
			continue
		}
		list, failed := DecodeElements(id, nil, data)
		err = errors.Join(err, failed)
		sets := tableOf(&have, id.Family).Sets
		if state := sets[id.Name()]; state.Shape.Fits(id) {
			state.Elements = SortElements(id, append(state.Elements, list...))
			sets[id.Name()] = state
		}
	}
	return have, err
}

// familyOf is the family of a message.
func familyOf(data []byte) model.Family {
	if len(data) > 0 && data[0] == unix.NFPROTO_IPV6 {
		return model.IPv6
	}
	return model.IPv4
}

// listedSet is the set whose elements a message lists. It reports false if it is not one of ours,
// such as a rule's own map.
func listedSet(data []byte) (nft.SetID, bool) {
	var d attr.Decoder
	name := attr.String(d.Find(d.Body(data), unix.NFTA_SET_ELEM_LIST_SET))
	return nft.SetNamed(familyOf(data), name)
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

func TestUserdataOfOtherProgramsHasNoFingerprint(t *testing.T) {
	for _, userdata := range [][]byte{nil, {0, 3, 'h', 'i', 0}, {fingerprintTag, 2, 1, 2}} {
		if got := fingerprintIn(userdata); got != 0 {
			t.Errorf("%v: it is read as %x", userdata, got)
		}
	}
}

// The format of an object's data depends on its type, and later kernels may have more
// types.
func TestWhatKubeVmapNeverMakesIsAlien(t *testing.T) {
	read := func(table string, kind uint16, attributes func(*attr.Encoder)) nft.Tables {
		e := attr.Encoder{}
		e.NetfilterHeader(unix.AF_INET6, 0)
		e.String(unix.NFTA_TABLE_NAME, table)
		e.String(unix.NFTA_OBJ_NAME, nft.CounterUnanswered.String()) // or of a chain, at another number
		attributes(&e)
		var got nft.Tables
		if err := Decode(&got, model.IPv6, kind, e.Bytes); err != nil {
			t.Error(err)
		}
		if _, _, ours, err := DecodeCounter(e.Bytes); kind == unix.NFT_MSG_NEWOBJ && (ours || err != nil) {
			t.Errorf("message %d is read as a counter of ours: %t, %v", kind, ours, err)
		}
		return got
	}
	check := func(kind uint16, attributes func(*attr.Encoder)) {
		t.Helper()
		if got := read(nft.TableName(), kind, attributes); got[model.IPv6] == nil || !got[model.IPv6].Alien {
			t.Errorf("message %d is read as %+v", kind, got[model.IPv6])
		}
		if got := read("other", kind, attributes); got != (nft.Tables{}) {
			t.Errorf("message %d of another table is read as %+v", kind, got)
		}
	}
	for objectType := range uint32(20) {
		if objectType != unix.NFT_OBJECT_COUNTER {
			check(unix.NFT_MSG_NEWOBJ, func(e *attr.Encoder) {
				e.Uint32(unix.NFTA_OBJ_TYPE, objectType)
				e.Data(unix.NFTA_OBJ_DATA, []byte{1, 2, 3})
			})
		}
	}
	check(unix.NFT_MSG_NEWFLOWTABLE, func(*attr.Encoder) {})
	check(unix.NFT_MSG_NEWCHAIN, func(e *attr.Encoder) {
		e.String(unix.NFTA_CHAIN_NAME, "__chain0")
		e.Uint32(attrChainFlags, chainBound)
	})
}

func TestIntervalsBecomePrefixes(t *testing.T) {
	id := nft.SetID{Family: model.IPv4, Kind: nft.SetServiceCIDRs}
	mark := func(text string) nft.Element { // "10.0.0.0" begins an interval, "-10.0.0.0" ends one
		addr, ends := strings.CutPrefix(text, "-")
		el := nft.Element{Key: nft.Key{Addr: netip.MustParseAddr(addr), Bits: startMark}}
		if ends {
			el.Key.Bits = endMark
		}
		return el
	}
	for name, tt := range map[string]struct{ marks, want string }{
		"a prefix":                      {"10.96.0.0 -10.97.0.0", "10.96.0.0/16"},
		"in any order":                  {"-10.97.0.0 10.96.0.0", "10.96.0.0/16"},
		"an address":                    {"10.96.0.0 -10.96.0.1", "10.96.0.0/32"},
		"neighbours":                    {"10.96.0.0 -10.97.0.0 10.97.0.0 -10.98.0.0", "10.96.0.0/16 10.97.0.0/16"},
		"to the last address":           {"255.255.255.0", "255.255.255.0/24"},
		"the last address":              {"255.255.255.255", "255.255.255.255/32"},
		"everything":                    {"0.0.0.0", "0.0.0.0/0"},
		"a range that is none":          {"10.0.0.1 -10.0.0.6", "none"},
		"a range that is none and one":  {"10.0.0.1 -10.0.0.6 10.96.0.0 -10.97.0.0", "none 10.96.0.0/16"},
		"an end with no beginning":      {"-10.0.0.6", ""},
		"a beginning without its end":   {"10.0.0.0 10.96.0.0 -10.97.0.0", "none 10.96.0.0/16"},
		"a beginning twice, of a clash": {"10.96.0.0 10.96.0.0 -10.97.0.0", "none 10.96.0.0/16"},
	} {
		t.Run(name, func(t *testing.T) {
			var list []nft.Element
			for _, m := range strings.Fields(tt.marks) {
				list = append(list, mark(m))
			}
			var got []string
			for _, el := range SortElements(id, list) {
				if el.Key == (nft.Key{}) {
					got = append(got, "none")
					continue
				}
				got = append(got, el.Key.Prefix().String())
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s is read as %v, want %s", tt.marks, got, tt.want)
			}
		})
	}
}

// message is a netlink message as it is found in an encoded batch.
type message struct {
	kind, flags uint16
	sequence    uint32
	family      uint8
	raw         []byte // the whole message
}

// data is the part after the netlink header.
func (m *message) data() []byte { return m.raw[attr.MessageHeaderLen:] }

// split takes the bytes of a batch apart.
func split(t testing.TB, b []byte) []message {
	t.Helper()
	var out []message
	for len(b) > 0 {
		n := int(binary.NativeEndian.Uint32(b))
		if n < attr.MessageHeaderLen+attr.BodyHeaderLen || n > len(b) || n%4 != 0 {
			t.Fatalf("message %d of %d bytes, where %d are left", len(out), n, len(b))
		}
		out = append(out, message{
			kind: binary.NativeEndian.Uint16(b[4:]), flags: binary.NativeEndian.Uint16(b[6:]),
			sequence: binary.NativeEndian.Uint32(b[8:]), family: b[attr.MessageHeaderLen], raw: b[:n],
		})
		b = b[n:]
	}
	return out
}

// encoded is the batch as bytes.
func encoded(t testing.TB, b nft.Batch) *Encoded {
	t.Helper()
	e, err := Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// attribute is an attribute and where it begins in its message.
type attribute struct {
	kind   uint16
	offset int
	value  []byte
}

// attrs reads the attributes in raw[from:to]. Each must be padded with zeros.
func attrs(t testing.TB, raw []byte, from, to int) []attribute {
	t.Helper()
	var out []attribute
	for at := from; at < to; {
		n := int(binary.NativeEndian.Uint16(raw[at:]))
		if n < attr.HeaderLen || at+n > to {
			t.Fatalf("attribute of %d bytes at %d, where %d are left", n, at, to-at)
		}
		out = append(out, attribute{binary.NativeEndian.Uint16(raw[at+2:]), at, raw[at+attr.HeaderLen : at+n]})
		for at += n; at%4 != 0; at++ {
			if raw[at] != 0 {
				t.Fatalf("padding of %#x at %d", raw[at], at)
			}
		}
	}
	return out
}

// elementsIn finds the elements of a message, ends of intervals included.
func elementsIn(t testing.TB, m *message) []attribute {
	t.Helper()
	for _, a := range attrs(t, m.raw, attr.MessageHeaderLen+attr.BodyHeaderLen, len(m.raw)) {
		if a.kind == unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED {
			return attrs(t, m.raw, a.offset+attr.HeaderLen, a.offset+attr.HeaderLen+len(a.value))
		}
	}
	t.Fatal("a message without a list of elements")
	return nil
}
