package kernel

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nlenc"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/wire"
)

// refusalOf returns the kernel's refusal of a message, with the attributes of an extended
// acknowledgement.
func refusalOf(sequence uint32, errno unix.Errno, flags uint16, attributes ...netlink.Attribute) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(-int32(errno)))
	b = append(b, make([]byte, attr.MessageHeaderLen)...) // of the refused message, which has its length only
	binary.NativeEndian.PutUint32(b[4:], attr.MessageHeaderLen)
	b = append(b, nltest.MustMarshalAttributes(attributes)...)
	header := binary.NativeEndian.AppendUint32(nil, uint32(attr.MessageHeaderLen+len(b)))
	header = binary.NativeEndian.AppendUint16(header, unix.NLMSG_ERROR)
	header = binary.NativeEndian.AppendUint16(header, flags)
	header = binary.NativeEndian.AppendUint32(header, sequence)
	header = binary.NativeEndian.AppendUint32(header, 0)
	return append(header, b...)
}

// FuzzRefusals decodes any bytes as replies to a batch. It must not panic, refusals must
// not exceed what fits in the bytes, and each has a text.
func FuzzRefusals(f *testing.F) {
	e, err := wire.Encode(nft.Sample(nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark}))
	if err != nil {
		f.Fatal(err)
	}
	at := netlink.Attribute{Type: unix.NLMSGERR_ATTR_OFFS, Data: nlenc.Uint32Bytes(40)}
	words := netlink.Attribute{Type: unix.NLMSGERR_ATTR_MSG, Data: nlenc.Bytes("Chain is in use")}
	const extended, capped = unix.NLM_F_ACK_TLVS, unix.NLM_F_CAPPED
	plain := refusalOf(3, unix.EPERM, 0)
	f.Add(plain)
	f.Add(refusalOf(70, unix.EEXIST, extended|capped, at))
	f.Add(refusalOf(70, unix.EBUSY, extended, at, words))
	f.Add(append(refusalOf(1, unix.ENOENT, extended|capped, words, at), refusalOf(2, unix.ENOENT, extended|capped, at)...))
	f.Add(append(refusalOf(0, 0, 0), plain...)) // an acknowledgement, then a refusal
	f.Add(plain[:len(plain)-3])
	f.Add(refusalOf(1<<31, 1<<31, extended, netlink.Attribute{Type: unix.NLMSGERR_ATTR_OFFS, Data: []byte{1}}))
	f.Fuzz(func(t *testing.T, answer []byte) {
		refusals, err := decodeErrors(answer, e)
		if len(refusals) > len(answer)/(attr.MessageHeaderLen+4) {
			t.Fatalf("%d refusals in %d bytes", len(refusals), len(answer))
		}
		for _, r := range refusals {
			if r.Errno == 0 || r.Error() == "" || strings.Contains(r.Message, "\x00") {
				t.Errorf("a refusal with the text %q", r.Error())
			}
		}
		if err != nil && !strings.HasPrefix(err.Error(), "read the answer to a batch: ") {
			t.Error(err)
		}
	})
}

// changing is nf_tables with one table of each family. Another program adds a chain to it
// while it is read; dumps are then marked as interrupted.
type changing struct {
	generation uint32
	changes    int // how many dumps of chains are changed in their midst
}

func (k *changing) answer(requests []netlink.Message) ([]netlink.Message, error) {
	m := requests[0]
	kind := uint16(m.Header.Type) & 0xff
	if m.Header.Flags&netlink.Dump == 0 {
		number := netlink.Attribute{Type: unix.NFTA_GEN_ID, Data: binary.BigEndian.AppendUint32(nil, k.generation)}
		if kind == unix.NFT_MSG_GETTABLE {
			number = netlink.Attribute{Type: unix.NFTA_TABLE_NAME, Data: nlenc.Bytes(nft.TableName())}
		}
		return []netlink.Message{as(m, kind-1, number)}, nil
	}
	var found []netlink.Message
	if kind == unix.NFT_MSG_GETCHAIN {
		found = append(found, as(m, unix.NFT_MSG_NEWCHAIN,
			netlink.Attribute{Type: unix.NFTA_CHAIN_TABLE, Data: nlenc.Bytes(nft.TableName())},
			netlink.Attribute{Type: unix.NFTA_CHAIN_NAME, Data: nlenc.Bytes(strings.Repeat("x", int(k.generation)))},
		))
	}
	end := m
	end.Data = make([]byte, 4)
	if kind == unix.NFT_MSG_GETCHAIN && k.changes > 0 {
		k.changes--
		k.generation++
		end.Header.Flags |= netlink.DumpInterrupted
		for i := range found {
			found[i].Header.Flags |= netlink.DumpInterrupted
		}
	}
	return nltest.Multipart(append(found, end))
}

// as returns a reply to the request.
func as(m netlink.Message, kind uint16, attributes ...netlink.Attribute) netlink.Message {
	m.Header.Type = unix.NFNL_SUBSYS_NFTABLES<<8 | netlink.HeaderType(kind)
	m.Header.Flags = 0
	m.Data = append([]byte{m.Data[0], unix.NFNETLINK_V0, 0, 0}, nltest.MustMarshalAttributes(attributes)...)
	return m
}

func TestReadRepeatsAnInterruptedDump(t *testing.T) {
	k := &changing{generation: 1, changes: maxReads - 1}
	have, err := (&Kernel{writer: &writer{}, read: nltest.Dial(k.answer)}).Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range model.Families {
		last := strings.Repeat("x", maxReads)
		if _, found := have[f].Chains[last]; !found || len(have[f].Chains) != 1 {
			t.Errorf("%s: read %+v, want chain %s alone", f, have[f].Chains, last)
		}
	}
	k = &changing{generation: 1, changes: 1000}
	if have, err := (&Kernel{writer: &writer{}, read: nltest.Dial(k.answer)}).Read(); err == nil {
		t.Errorf("of tables that always change, read %+v", have)
	}
}
