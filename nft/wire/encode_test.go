package wire

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

func TestEncodeIsOneTransaction(t *testing.T) {
	_, batch := load(200)
	e := encoded(t, batch)
	messages := split(t, e.Bytes)
	if len(messages) != e.Messages {
		t.Errorf("there are %d messages, reported %d", len(messages), e.Messages)
	}
	for i, m := range messages {
		if m.sequence != uint32(i) || m.flags&unix.NLM_F_REQUEST == 0 || m.flags&unix.NLM_F_ACK != 0 {
			t.Fatalf("message %d has number %d and flags %#x", i, m.sequence, m.flags)
		}
		first, last := m.kind == unix.NFNL_MSG_BATCH_BEGIN, m.kind == unix.NFNL_MSG_BATCH_END
		if first != (i == 0) || last != (i == len(messages)-1) {
			t.Fatalf("message %d of %d is of kind %#x", i, len(messages), m.kind)
		}
		if !first && !last && (m.kind>>8 != unix.NFNL_SUBSYS_NFTABLES || m.family != unix.NFPROTO_IPV4 && m.family != unix.NFPROTO_IPV6) {
			t.Fatalf("message %d is of kind %#x, family %d", i, m.kind, m.family)
		}
		attrs(t, m.raw, attr.MessageHeaderLen+attr.BodyHeaderLen, len(m.raw))
	}
}

// Nothing of the earlier content may remain, and no memory be allocated if the capacity
// suffices.
func TestEncodeIntoReusesTheBuffer(t *testing.T) {
	_, batch := load(200)
	fresh := encoded(t, batch)
	for _, room := range []int{0, 100, 4 * len(fresh.Bytes)} {
		old := bytes.Repeat([]byte{0xff}, room)
		over, err := EncodeInto(old, batch)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(over.Bytes, fresh.Bytes) {
			t.Errorf("over %d bytes it is otherwise", room)
		}
		if reused := room > 0 && &old[0] == &over.Bytes[0]; reused != (room > len(fresh.Bytes)) {
			t.Errorf("over %d bytes, for %d, reused is %t", room, len(fresh.Bytes), reused)
		}
	}
}

func TestEncodeCheckIsForAnotherTableAndHasNoEnd(t *testing.T) {
	_, batch := load(3)
	e, err := EncodeCheck(batch, "another")
	if err != nil {
		t.Fatal(err)
	}
	messages := split(t, e.Bytes)
	if last := messages[len(messages)-1]; last.kind == unix.NFNL_MSG_BATCH_END {
		t.Error("the kernel would commit it")
	}
	var ours nft.Tables
	for _, m := range messages[1:] {
		if err := Decode(&ours, model.IPv4, m.kind&0xff, m.data()); err != nil || ours != (nft.Tables{}) {
			t.Fatalf("message %d is taken for one about our table: %v", m.sequence, err)
		}
		// The table comes first in all of them: NFTA_TABLE_NAME, NFTA_CHAIN_TABLE
		// and so on are all 1.
		if first := attrs(t, m.raw, attr.MessageHeaderLen+attr.BodyHeaderLen, len(m.raw))[0]; first.kind != 1 || attr.String(first.value) != "another" {
			t.Fatalf("message %d is about table %q", m.sequence, first.value)
		}
	}
}

func TestEncodeOfOpsOnNames(t *testing.T) {
	for _, tt := range []struct {
		op        nft.Op
		kind      uint16
		attribute uint16 // of the name
	}{
		{nft.DeleteSet{Family: model.IPv6, Name: "x"}, unix.NFT_MSG_DELSET, unix.NFTA_SET_NAME},
		{nft.FlushChain{Family: model.IPv6, Name: "x"}, unix.NFT_MSG_DELRULE, unix.NFTA_RULE_CHAIN},
		{nft.DeleteChain{Family: model.IPv6, Name: "x"}, unix.NFT_MSG_DELCHAIN, unix.NFTA_CHAIN_NAME},
		{nft.DeleteTable{Family: model.IPv6}, unix.NFT_MSG_DELTABLE, 0},
	} {
		m := split(t, encoded(t, nft.Batch{tt.op}).Bytes)[1]
		want := []attribute{{kind: 1, value: []byte(nft.TableName() + "\x00")}}
		if tt.attribute > 0 {
			want = append(want, attribute{kind: tt.attribute, value: []byte("x\x00")})
		}
		got := attrs(t, m.raw, attr.MessageHeaderLen+attr.BodyHeaderLen, len(m.raw))
		same := slices.EqualFunc(got, want, func(a, b attribute) bool {
			return a.kind == b.kind && bytes.Equal(a.value, b.value)
		})
		if m.kind != unix.NFNL_SUBSYS_NFTABLES<<8|tt.kind || m.family != unix.NFPROTO_IPV6 || !same {
			t.Errorf("%s is sent as kind %#x for family %d with %v", tt.op, m.kind, m.family, got)
		}
	}
}

// Services must continue while no proxy runs.
func TestProtectedTableOutlivesItsOwner(t *testing.T) {
	m := split(t, encoded(t, nft.Batch{nft.AddTable{Protected: true}}).Bytes)[1]
	var d attr.Decoder
	if flags := d.Uint32(d.Find(d.Body(m.data()), unix.NFTA_TABLE_FLAGS)); flags != tableOwned|tablePersists {
		t.Errorf("the table has flags %#x", flags)
	}
}

func TestPayloadWriteIsThatOfTheLibrary(t *testing.T) {
	got := marshalPayloadWrite(nft.PayloadWrite{
		Register: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Length: 4,
		ChecksumType: uint32(expr.CsumTypeInet), ChecksumOffset: 10, TransportChecksumToo: true,
	})
	want, err := expr.Marshal(unix.NFPROTO_IPV4, &expr.Payload{
		OperationType: expr.PayloadWrite, SourceRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4,
		CsumType: expr.CsumTypeInet, CsumOffset: 10, CsumFlags: unix.NFT_PAYLOAD_L4CSUM_PSEUDOHDR,
	})
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("it is %x, want %x: %v", got, want, err)
	}
}

// The kernel chooses the name of a rule's own set, so elements and rule refer to it by a number.
func TestRuleRefersToItsOwnSet(t *testing.T) {
	_, batch := load(12)
	var d attr.Decoder
	seen, last, own := map[uint32]bool{}, uint32(0), 0
	for _, m := range split(t, encoded(t, batch).Bytes) {
		refer := func(b []byte, name, number uint16) {
			if text := attr.String(d.Find(b, name)); !strings.Contains(text, "%d") {
				return
			}
			if own++; d.Uint32(d.Find(b, number)) != last {
				t.Fatalf("message %d refers to set %d, want %d", m.sequence, d.Uint32(d.Find(b, number)), last)
			}
		}
		switch b := d.Body(m.data()); m.kind & 0xff {
		case unix.NFT_MSG_NEWSET:
			if last = d.Uint32(d.Find(b, unix.NFTA_SET_ID)); seen[last] {
				t.Fatalf("message %d is about another set %d", m.sequence, last)
			}
			seen[last] = true
		case unix.NFT_MSG_NEWSETELEM:
			refer(b, unix.NFTA_SET_ELEM_LIST_SET, unix.NFTA_SET_ELEM_LIST_SET_ID)
		case unix.NFT_MSG_NEWRULE:
			if m.flags&unix.NLM_F_APPEND == 0 {
				t.Fatalf("message %d puts a rule before those that come first", m.sequence)
			}
			for _, x := range d.Attributes(d.Find(b, unix.NFTA_RULE_EXPRESSIONS)) {
				if attr.String(d.Find(x, unix.NFTA_EXPR_NAME)) == "lookup" {
					refer(d.Find(x, unix.NFTA_EXPR_DATA), unix.NFTA_LOOKUP_SET, unix.NFTA_LOOKUP_SET_ID)
				}
			}
		}
	}
	if own == 0 || d.Err() != nil {
		t.Errorf("%d references: %v", own, d.Err())
	}
}

func TestExplainFindsElementByOffset(t *testing.T) {
	rules, _ := load(1000)
	for id, list := range rules.Elements() {
		if len(list) == 0 || id.Slot%32 > 0 || id.Kind == nft.SetServiceCIDRs { // each prefix is two elements
			continue
		}
		t.Run(nft.FamilyName(id.Family)+" "+id.Name(), func(t *testing.T) {
			for _, batch := range []nft.Batch{
				{nft.AddTable{Family: model.IPv6}, nft.AddElements{Set: id, Elements: list}, nft.AddTable{}},
				{nft.AddTable{Family: model.IPv6}, nft.DeleteElements{Set: id, Elements: list}, nft.AddTable{}},
			} {
				checkOffsets(t, encoded(t, batch), list)
			}
		})
	}
}

// checkOffsets asserts that every offset within an element maps to it.
func checkOffsets(t *testing.T, e *Encoded, list []nft.Element) {
	t.Helper()
	next := 0
	for _, m := range split(t, e.Bytes) {
		if m.kind&0xff != unix.NFT_MSG_NEWSETELEM && m.kind&0xff != unix.NFT_MSG_DELSETELEM || m.kind>>8 == 0 {
			continue
		}
		for _, a := range elementsIn(t, &m) {
			for _, offset := range []int{a.offset, a.offset + attr.HeaderLen, a.offset + attr.HeaderLen + len(a.value) - 1} {
				got := e.Explain(m.sequence, uint32(offset), unix.EEXIST, "")
				if got.Element == nil || *got.Element != list[next] || list[next].Service != nil && got.Service != *list[next].Service {
					t.Fatalf("message %d, offset %d: %v of Service %s, want element %d", m.sequence, offset, got.Element, got.Service, next)
				}
			}
			next++
		}
	}
	if next != len(list) {
		t.Errorf("%d elements were found, want %d", next, len(list))
	}
}

func TestExplainWithoutElement(t *testing.T) {
	id := nft.SetID{Kind: nft.SetServices}
	rules, _ := load(12)
	e := encoded(t, nft.Batch{nft.AddElements{Set: id, Elements: rules.Elements()[id]}, nft.DeleteChain{Name: "lb-3"}})
	first := split(t, e.Bytes)[1]
	for name, at := range map[string]struct {
		sequence, offset uint32
		op               bool
	}{
		"the batch as a whole":     {0, 0, false},
		"its end":                  {3, 0, false},
		"a message that is none":   {99, 20, false},
		"no offset":                {1, 0, true},
		"the message's header":     {1, 4, true},
		"the name of the table":    {1, uint32(attrs(t, first.raw, 20, len(first.raw))[0].offset), true},
		"the name of the set":      {1, uint32(attrs(t, first.raw, 20, len(first.raw))[1].offset), true},
		"the list of all elements": {1, uint32(attrs(t, first.raw, 20, len(first.raw))[2].offset), true},
		"behind the message":       {1, 1 << 20, true},
		"a chain":                  {2, 24, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := e.Explain(at.sequence, at.offset, unix.ENOENT, "")
			if got.Element != nil || got.NamesService() || (got.Op != nil) != at.op {
				t.Errorf("it is about %v, element %v of Service %q", got.Op, got.Element, got.Service)
			}
		})
	}
}

func TestForeignChangeIsSentUnchangedAndNamedInErrors(t *testing.T) {
	var body attr.Encoder
	body.String(unix.NFTA_TABLE_NAME, "kube-vmap-takeover")
	change := nft.ForeignChange{
		Text: "add table inet kube-vmap-takeover",
		Kind: unix.NFT_MSG_NEWTABLE, Flags: unix.NLM_F_CREATE, Family: unix.NFPROTO_INET, Attributes: body.Bytes,
	}
	e := encoded(t, nft.Batch{nft.AddTable{}, change})
	m := split(t, e.Bytes)[2]
	if m.kind != unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWTABLE || m.flags != unix.NLM_F_REQUEST|unix.NLM_F_CREATE || m.family != unix.NFPROTO_INET {
		t.Errorf("kind %#x, flags %#x, family %d", m.kind, m.flags, m.family)
	}
	if got := m.raw[attr.MessageHeaderLen+attr.BodyHeaderLen:]; !bytes.Equal(got, body.Bytes) {
		t.Errorf("attributes %x, want %x", got, body.Bytes)
	}
	const want = "add table inet kube-vmap-takeover: operation not supported"
	if err := e.Explain(2, 0, unix.EOPNOTSUPP, ""); err.Error() != want {
		t.Errorf("the error is %q, want %q", err, want)
	}
}

func TestBatchDependsOnGenerationOfForeignChange(t *testing.T) {
	for _, generation := range []uint32{0, 77} {
		e := encoded(t, nft.Batch{nft.AddTable{}, nft.ForeignChange{}, nft.ForeignChange{Generation: generation}})
		begin := split(t, e.Bytes)[0]
		var got uint32
		for _, a := range attrs(t, begin.raw, attr.MessageHeaderLen+attr.BodyHeaderLen, len(begin.raw)) {
			var d attr.Decoder
			if a.kind == unix.NFNL_BATCH_GENID {
				got = d.Uint32(a.value)
			}
		}
		if got != generation {
			t.Errorf("the batch is for generation %d, want %d", got, generation)
		}
	}
}
