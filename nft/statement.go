package nft

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// statement is one step of a rule in both of its forms, side by side: the text
// that nft lists for it and the expressions that the kernel runs.
type statement struct {
	text        string
	expressions []expr.Any
	// choices are the chains of the verdict map that belongs to the statement:
	// number i leads to choices[i].
	choices []ChainID
}

// Registers. Keys are built from the first 4-byte register on, one field behind
// the other; a single value lies in the first 16-byte one, which is the same
// place.
const (
	regVerdict = unix.NFT_REG_VERDICT
	regValue   = unix.NFT_REG_1
	regKey     = unix.NFT_REG32_00
)

// Bits of conntrack's state and status as the kernel numbers them
// (include/uapi/linux/netfilter/nf_conntrack_common.h).
const (
	ctStateNew     = 1 << 3 // NF_CT_STATE_BIT(IP_CT_NEW)
	ctStatusDstNAT = 1 << 5 // IPS_DST_NAT
)

// native is a number as the kernel keeps it in a register.
func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// anyBit matches if the value in the register shares a bit with mask.
func anyBit(mask uint32) []expr.Any {
	return []expr.Any{
		&expr.Bitwise{SourceRegister: regValue, DestRegister: regValue, Len: 4, Mask: native(mask), Xor: native(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: regValue, Data: native(0)},
	}
}

// newConnection matches packets that open a connection.
func newConnection() statement {
	load := &expr.Ct{Key: expr.CtKeySTATE, Register: regValue}
	return statement{text: "ct state new", expressions: append([]expr.Any{load}, anyBit(ctStateNew)...)}
}

// translated matches connections whose destination was translated.
func translated() statement {
	load := &expr.Ct{Key: expr.CtKey(unix.NFT_CT_STATUS), Register: regValue}
	return statement{text: "ct status dnat", expressions: append([]expr.Any{load}, anyBit(ctStatusDstNAT)...)}
}

// marked matches packets that carry a bit of mask.
func marked(mask uint32) statement {
	load := &expr.Meta{Key: expr.MetaKeyMARK, Register: regValue}
	return statement{
		text:        fmt.Sprintf("meta mark & 0x%08x != 0x00000000", mask),
		expressions: append([]expr.Any{load}, anyBit(mask)...),
	}
}

// setMark sets the bits of mask in the packet's mark.
func setMark(mask uint32) statement {
	return changeMark(fmt.Sprintf("meta mark set meta mark | 0x%08x", mask), ^mask, mask)
}

// flipMark inverts the bits of mask in the packet's mark; behind [marked] with
// a single bit that clears it.
func flipMark(mask uint32) statement {
	return changeMark(fmt.Sprintf("meta mark set meta mark ^ 0x%08x", mask), ^uint32(0), mask)
}

func changeMark(text string, keep, xor uint32) statement {
	return statement{text: text, expressions: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: regValue},
		&expr.Bitwise{SourceRegister: regValue, DestRegister: regValue, Len: 4, Mask: native(keep), Xor: native(xor)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: regValue},
	}}
}

// sourceNotIn matches packets whose source is outside the prefix.
func sourceNotIn(fam *family, p netip.Prefix) statement {
	p = p.Masked()
	load := []expr.Any{
		&expr.Payload{DestRegister: regValue, Base: expr.PayloadBaseNetworkHeader, Offset: fam.saddr, Len: fam.addrLen},
	}
	text := p.Addr().String()
	if !p.IsSingleIP() {
		text = p.String()
		load = append(load, &expr.Bitwise{
			SourceRegister: regValue, DestRegister: regValue, Len: fam.addrLen,
			Mask: prefixMask(fam, p.Bits()), Xor: make([]byte, fam.addrLen),
		})
	}
	return statement{
		text:        fam.name + " saddr != " + text,
		expressions: append(load, &expr.Cmp{Op: expr.CmpOpNeq, Register: regValue, Data: p.Addr().AsSlice()}),
	}
}

// notFrom matches packets that come in by no such interface; what the host itself
// sends comes in by none.
func notFrom(i Interface) statement {
	// A name that is compared whole is padded with zeros (include/uapi/linux/if.h);
	// nft lists a shorter comparison with an asterisk.
	name, asterisk := []byte(i.Name), "*"
	if !i.Prefix {
		name, asterisk = append(name, make([]byte, unix.IFNAMSIZ-len(name))...), ""
	}
	return statement{
		text: fmt.Sprintf("iifname != \"%s%s\"", i.Name, asterisk),
		expressions: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: regValue},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: regValue, Data: name},
		},
	}
}

func prefixMask(fam *family, bits int) []byte {
	mask := make([]byte, fam.addrLen)
	for i := range bits {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return mask
}

// notICMP lets every transport protocol pass but ICMP. It is always true where
// it is used; without a match on the protocol, nft 1.0.6 complains when it lists
// a translation that reads ports.
func notICMP(fam *family) statement {
	return statement{text: "meta l4proto != " + fam.icmpName, expressions: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: regValue},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: regValue, Data: []byte{fam.icmp}},
	}}
}

// loadKey puts the fields of a key into registers, one behind the other. pick is
// how many endpoints there are to draw from, where the key has such a field.
func loadKey(id SetID, pick uint32) []expr.Any {
	fam := id.family()
	var load []expr.Any
	reg := uint32(regKey)
	for _, f := range id.layout().key {
		load = append(load, f.load(fam, reg, pick))
		reg += f.length(fam) / 4
	}
	return load
}

// load reads the field of a packet into a register.
func (f field) load(fam *family, reg, pick uint32) expr.Any {
	switch f {
	case fieldSource:
		return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: fam.saddr, Len: fam.addrLen}
	case fieldDestination:
		return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: fam.daddr, Len: fam.addrLen}
	case fieldProtocol:
		return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg}
	case fieldPort: // TCP, UDP and SCTP all have it here
		return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
	}
	return &expr.Numgen{Register: reg, Modulus: pick, Type: unix.NFT_NG_RANDOM}
}

// dispatch sends the packet where the verdict map says.
func dispatch(id SetID) statement {
	return statement{
		text: id.layout().lookupText(id.family()) + " vmap @" + id.Name(),
		expressions: append(loadKey(id, 0),
			&expr.Lookup{SourceRegister: regKey, DestRegister: regVerdict, IsDestRegSet: true, SetName: id.Name()}),
	}
}

// in matches packets whose key is in the set.
func in(id SetID) statement {
	return statement{
		text:        id.layout().lookupText(id.family()) + " @" + id.Name(),
		expressions: append(loadKey(id, 0), &expr.Lookup{SourceRegister: regKey, SetName: id.Name()}),
	}
}

// translate sends the connection to the endpoint the map holds for it, one of
// pick where the key asks for a number.
func translate(id SetID, pick uint32) statement {
	fam := id.family()
	key := id.layout().lookupText(fam)
	if pick > 0 {
		key = strings.Replace(key, fieldPick.text(fam), fmt.Sprintf("numgen random mod %d", pick), 1)
	}
	return statement{
		text: fmt.Sprintf("dnat %s to %s map @%s", fam.name, key, id.Name()),
		expressions: append(loadKey(id, pick),
			&expr.Lookup{SourceRegister: regKey, DestRegister: regKey, IsDestRegSet: true, SetName: id.Name()},
			&expr.NAT{
				Type: expr.NATTypeDestNAT, Family: uint32(fam.number),
				RegAddrMin: regKey, RegProtoMin: regKey + fam.addrLen/4, Specified: true,
			}),
	}
}

// pickOne draws a number and goes to the chain of that number.
func pickOne(choices []ChainID) statement {
	var text strings.Builder
	fmt.Fprintf(&text, "numgen random mod %d vmap { ", len(choices))
	for i, c := range choices {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "%d : goto %s", i, c.Name())
	}
	text.WriteString(" }")
	return statement{
		text:    text.String(),
		choices: choices,
		expressions: []expr.Any{
			&expr.Numgen{Register: regValue, Modulus: uint32(len(choices)), Type: unix.NFT_NG_RANDOM},
			&expr.Lookup{SourceRegister: regValue, DestRegister: regVerdict, IsDestRegSet: true, SetName: anonymousMap},
		},
	}
}

// goTo leaves for another chain for good.
func goTo(id ChainID) statement {
	return statement{
		text:        "goto " + id.Name(),
		expressions: []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: id.Name()}},
	}
}

func drop() statement {
	return statement{text: "drop", expressions: []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}}
}

// tcpOnly matches TCP.
func tcpOnly() statement {
	return statement{text: "meta l4proto tcp", expressions: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: regValue},
		&expr.Cmp{Op: expr.CmpOpEq, Register: regValue, Data: []byte{byte(model.TCP)}},
	}}
}

// resetTCP answers as a host does on whose port nobody listens.
func resetTCP() statement {
	return statement{
		text:        "reject with tcp reset",
		expressions: []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}},
	}
}

// reject answers port unreachable.
func reject(fam *family) statement {
	return statement{
		text:        "reject",
		expressions: []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: fam.portUnr}},
	}
}

// masquerade makes the node's address the source, with ports chosen at random
// so that many connections at once do not race for the same one.
func masquerade() statement {
	return statement{
		text:        "masquerade fully-random",
		expressions: []expr.Any{&expr.Masq{FullyRandom: true}},
	}
}
