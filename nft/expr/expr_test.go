package expr

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// TestBytesAreThoseOfTheLibrary has each expression in every form.
func TestBytesAreThoseOfTheLibrary(t *testing.T) {
	mask, zero := []byte{0xff, 0xff, 0, 0}, make([]byte, 4)
	for _, tt := range []struct {
		ours Any
		want expr.Any
	}{
		{&Meta{Key: unix.NFT_META_MARK, Register: 1}, &expr.Meta{Key: expr.MetaKeyMARK, Register: 1}},
		{&Meta{Key: unix.NFT_META_MARK, Register: 1, SourceRegister: true}, &expr.Meta{Key: expr.MetaKeyMARK, Register: 1, SourceRegister: true}},
		{&Ct{Key: unix.NFT_CT_STATE, Register: 1}, &expr.Ct{Key: expr.CtKeySTATE, Register: 1}},
		{&Ct{Key: unix.NFT_CT_PKTS, Register: 1}, &expr.Ct{Key: expr.CtKeyPKTS, Register: 1}},
		{&Ct{Key: unix.NFT_CT_LABELS, Register: 1, SourceRegister: true}, &expr.Ct{Key: expr.CtKeyLABELS, Register: 1, SourceRegister: true}},
		{&Ct{Key: unix.NFT_CT_PROTO_SRC, Register: 8}, &expr.Ct{Key: expr.CtKeyPROTOSRC, Register: 8}},
		{&Ct{Key: unix.NFT_CT_PROTO_DST, Register: 8}, &expr.Ct{Key: expr.CtKeyPROTODST, Register: 8}},
		{&Ct{Key: unix.NFT_CT_SRC_IP, Register: 8}, &expr.Ct{Key: expr.CtKeySRCIP, Register: 8}},
		{&Ct{Key: unix.NFT_CT_DST_IP, Register: 8}, &expr.Ct{Key: expr.CtKeyDSTIP, Register: 8}},
		{&Ct{Key: unix.NFT_CT_SRC_IP6, Register: 8}, &expr.Ct{Key: expr.CtKeySRCIP6, Register: 8}},
		{&Ct{Key: unix.NFT_CT_DST_IP6, Register: 8}, &expr.Ct{Key: expr.CtKeyDSTIP6, Register: 8}},
		{&Payload{8, 1, 16, 4}, &expr.Payload{DestRegister: 8, Base: 1, Offset: 16, Len: 4}},
		{
			&PayloadWrite{
				Register: 1, Base: 1, Offset: 16, Length: 4, ChecksumType: unix.NFT_PAYLOAD_CSUM_INET, ChecksumOffset: 10,
				TransportChecksumToo: true,
			},
			&expr.Payload{
				OperationType: expr.PayloadWrite, SourceRegister: 1, Base: 1, Offset: 16, Len: 4,
				CsumType: expr.CsumTypeInet, CsumOffset: 10, CsumFlags: unix.NFT_PAYLOAD_L4CSUM_PSEUDOHDR,
			},
		},
		{&SourceType{1}, &expr.Fib{Register: 1, ResultADDRTYPE: true, FlagSADDR: true}},
		{&Immediate{1, []byte{7}}, &expr.Immediate{Register: 1, Data: []byte{7}}},
		{&Bitwise{1, 2, 4, mask, zero}, &expr.Bitwise{SourceRegister: 1, DestRegister: 2, Len: 4, Mask: mask, Xor: zero}},
		{
			&Byteorder{1, 2, unix.NFT_BYTEORDER_HTON, 8, 8},
			&expr.Byteorder{SourceRegister: 1, DestRegister: 2, Op: expr.ByteorderHton, Len: 8, Size: 8},
		},
		{&Cmp{unix.NFT_CMP_NEQ, 1, mask}, &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: mask}},
		{&Numgen{1, 5, unix.NFT_NG_RANDOM}, &expr.Numgen{Register: 1, Modulus: 5, Type: unix.NFT_NG_RANDOM}},
		{
			&Hash{8, 9, 4, 5, 6},
			&expr.Hash{SourceRegister: 8, DestRegister: 9, Length: 4, Modulus: 5, Seed: 6, Type: expr.HashTypeJenkins},
		},
		{&Lookup{SourceRegister: 8, SetName: "set", SetID: 7}, &expr.Lookup{SourceRegister: 8, SetName: "set", SetID: 7}},
		{
			&Lookup{SourceRegister: 8, IsDestRegSet: true, SetName: "set"},
			&expr.Lookup{SourceRegister: 8, IsDestRegSet: true, SetName: "set"},
		},
		{
			&Dynset{SrcRegKey: 8, SetName: "set", SetID: 7, Operation: unix.NFT_DYNSET_OP_ADD, Counter: true},
			&expr.Dynset{SrcRegKey: 8, SetName: "set", SetID: 7, Exprs: []expr.Any{&expr.Counter{}}},
		},
		{
			&Dynset{SrcRegKey: 8, SrcRegData: 9, SetName: "set", Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: time.Hour},
			&expr.Dynset{SrcRegKey: 8, SrcRegData: 9, SetName: "set", Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: time.Hour},
		},
		{&Counter{}, &expr.Counter{}},
		{&Limit{Rate: 5, Burst: 6}, &expr.Limit{Type: expr.LimitTypePkts, Rate: 5, Unit: expr.LimitTimeSecond, Burst: 6}},
		{&NamedCounter{"unanswered"}, &expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: "unanswered"}},
		{&FlowOffload{"connections"}, &expr.FlowOffload{Name: "connections"}},
		{
			&DestinationNAT{unix.NFPROTO_IPV6, 8, 12},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV6, RegAddrMin: 8, RegProtoMin: 12, Specified: true},
		},
		{&Masq{}, &expr.Masq{}},
		{&Masq{FullyRandom: true}, &expr.Masq{FullyRandom: true}},
		{&Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 3}, &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: 3}},
		{&Verdict{Kind: Drop}, &expr.Verdict{Kind: expr.VerdictDrop}},
		{&Verdict{Kind: Accept}, &expr.Verdict{Kind: expr.VerdictAccept}},
		{&Verdict{Kind: unix.NFT_RETURN}, &expr.Verdict{Kind: expr.VerdictReturn}},
		{&Verdict{Kind: unix.NFT_GOTO, Chain: "chain"}, &expr.Verdict{Kind: expr.VerdictGoto, Chain: "chain"}},
		{&Verdict{Kind: unix.NFT_JUMP, Chain: "chain"}, &expr.Verdict{Kind: expr.VerdictJump, Chain: "chain"}},
	} {
		want, err := expr.Marshal(unix.NFPROTO_INET, tt.want)
		if err != nil {
			t.Fatal(err)
		}
		if got := Encode(tt.ours); !bytes.Equal(got, want) {
			t.Errorf("%T %+v is\n% x, want\n% x", tt.ours, tt.ours, got, want)
		}
	}
}
