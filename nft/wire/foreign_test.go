package wire

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

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
