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

// A Statement is one step of a rule in both of its forms, side by side: the text that nft
// lists for it, and the expressions that the kernel runs.
type Statement struct {
	Text        string
	Expressions []any // expr.Any, or PayloadWrite
	// Choices are the chains of the verdict map that belongs to the statement: number i
	// jumps to Choices[i].
	Choices []ChainID
	// Protocols are the elements of the set that belongs to the statement.
	Protocols []model.Protocol

	// chains and sets are what the expressions refer to by name, without Choices.
	chains []ChainID
	sets   []SetID
}

// anonymousMap and anonymousSet are the names of sets that belong to a rule; the kernel
// replaces %d by a number.
const (
	anonymousMap = "__map%d"
	anonymousSet = "__set%d"
)

// HasSet reports whether an anonymous set belongs to the statement.
func (s *Statement) HasSet() bool { return s.Choices != nil || s.Protocols != nil }

// Set returns the name and the declaration of the statement's anonymous set: a verdict map
// with Choices as elements, or a set of Protocols.
func (s *Statement) Set() (name string, shape SetShape) {
	if s.Choices == nil {
		return anonymousSet, SetShape{
			Flags:   unix.NFT_SET_ANONYMOUS | unix.NFT_SET_CONSTANT,
			KeyType: typeProto.number, KeyLen: 1,
			Size: uint32(len(s.Protocols)),
		}
	}
	return anonymousMap, SetShape{
		Flags:   unix.NFT_SET_ANONYMOUS | unix.NFT_SET_CONSTANT | unix.NFT_SET_MAP,
		KeyType: typeInteger.number, KeyLen: 4, DataType: typeVerdict.number,
		Size: uint32(len(s.Choices)),
	}
}

// Registers. Keys are built from the first 4-byte register on, one field after the other. A
// single value is in the first 16-byte register, which is the same memory.
const (
	regVerdict = unix.NFT_REG_VERDICT
	regValue   = unix.NFT_REG_1
	regKey     = unix.NFT_REG32_00
)

// native is a number as the kernel keeps it in a register.
func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// anyBit matches if the value in the register shares a bit with mask.
func anyBit(mask uint32) []any {
	return []any{
		&expr.Bitwise{SourceRegister: regValue, DestRegister: regValue, Len: 4, Mask: native(mask), Xor: native(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: regValue, Data: native(0)},
	}
}

// marked matches packets that carry a bit of mask.
func marked(mask uint32) Statement {
	load := &expr.Meta{Key: expr.MetaKeyMARK, Register: regValue}
	return Statement{
		Text:        fmt.Sprintf("meta mark & 0x%08x != 0x00000000", mask),
		Expressions: append([]any{load}, anyBit(mask)...),
	}
}

func markIs(value uint32) Statement {
	return Statement{
		Text: fmt.Sprintf("meta mark 0x%08x", value),
		Expressions: []any{
			&expr.Meta{Key: expr.MetaKeyMARK, Register: regValue},
			&expr.Cmp{Op: expr.CmpOpEq, Register: regValue, Data: native(value)},
		},
	}
}

func setMark(mask uint32) Statement {
	return changeMark(fmt.Sprintf("meta mark set meta mark | 0x%08x", mask), ^mask, mask)
}

func clearMark(mask uint32) Statement {
	return changeMark(fmt.Sprintf("meta mark set meta mark & 0x%08x", ^mask), ^mask, 0)
}

func changeMark(text string, keep, xor uint32) Statement {
	return Statement{Text: text, Expressions: []any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: regValue},
		&expr.Bitwise{SourceRegister: regValue, DestRegister: regValue, Len: 4, Mask: native(keep), Xor: native(xor)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: regValue},
	}}
}

// sourceIn matches packets whose source is in the prefix, or outside it if want is false.
func sourceIn(fam *family, p netip.Prefix, want bool) Statement {
	p = p.Masked()
	load := []any{
		&expr.Payload{DestRegister: regValue, Base: expr.PayloadBaseNetworkHeader, Offset: fam.saddr, Len: fam.addrLen},
	}
	text := p.Addr().String()
	if !p.IsSingleIP() {
		text = p.String()
		load = append(load, maskTo(fam, regValue, p.Bits()))
	}
	word, op := equality(want)
	return Statement{
		Text:        fam.name + " saddr " + word + text,
		Expressions: append(load, &expr.Cmp{Op: op, Register: regValue, Data: p.Addr().AsSlice()}),
	}
}

// from matches packets that arrive at such an interface, or at another one if want is false.
// Packets that the host itself sends do not arrive at any.
func from(i Interface, want bool) Statement {
	// A whole name is compared with its padding of zeros (include/uapi/linux/if.h); nft
	// lists a shorter comparison with an asterisk.
	name, asterisk := []byte(i.Name), "*"
	if !i.Prefix {
		name, asterisk = append(name, make([]byte, unix.IFNAMSIZ-len(name))...), ""
	}
	word, op := equality(want)
	return Statement{
		Text: fmt.Sprintf("iifname %s\"%s%s\"", word, i.Name, asterisk),
		Expressions: []any{
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: regValue},
			&expr.Cmp{Op: op, Register: regValue, Data: name},
		},
	}
}

// equality is the text and the operator of a comparison, for equal or for not equal.
func equality(want bool) (string, expr.CmpOp) {
	if want {
		return "", expr.CmpOpEq
	}
	return "!= ", expr.CmpOpNeq
}

// fromHost matches packets whose source is an address of the host.
func fromHost() Statement {
	return Statement{Text: "fib saddr type local", Expressions: []any{
		&expr.Fib{Register: regValue, ResultADDRTYPE: true, FlagSADDR: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: regValue, Data: native(unix.RTN_LOCAL)},
	}}
}

// sentBack matches packets that the host would send by the interface where they arrived. Linux before
// 5.19 knows this only in prerouting. It does not match packets to addresses of the host.
func sentBack() Statement {
	return Statement{Text: "fib daddr . iif oif != 0", Expressions: []any{
		&expr.Fib{Register: regValue, ResultOIF: true, FlagDADDR: true, FlagIIF: true},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: regValue, Data: native(0)},
	}}
}

// prefixMask is the mask of a prefix of that length.
func prefixMask(fam *family, bits int) []byte {
	mask := make([]byte, fam.addrLen)
	for i := range bits {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return mask
}

// notICMP matches every transport protocol but ICMP. It is always true where it is used;
// without a match on the protocol, nft 1.0.6 complains when it lists a translation that
// reads ports.
func notICMP(fam *family) Statement { return compareProtocol(false, fam.icmpName, fam.icmp) }

// byNameOnly is not the number of any set of a batch. If no set has the name, the kernel
// looks for one with the number (nft_set_lookup_global), and every set that the batch
// declares again has number zero.
const byNameOnly = 1<<32 - 1

// loadKey puts the fields of a key into registers, one after the other. It returns the
// first register after them, too.
func loadKey(id SetID, d pick) (load []any, next uint32) {
	fam := id.family()
	reg := uint32(regKey)
	for _, f := range id.Layout().Key {
		load = append(load, f.load(fam, reg, d)...)
		if f == FieldClient && id.SourceBits() < fam.bits() {
			load = append(load, maskTo(fam, reg, id.SourceBits()))
		}
		reg += f.Len(id.Family) / 4
	}
	return load, reg
}

// maskTo clears all but the first bits of the address in the register.
func maskTo(fam *family, reg uint32, bits int) *expr.Bitwise {
	return &expr.Bitwise{
		SourceRegister: reg, DestRegister: reg, Len: fam.addrLen,
		Mask: prefixMask(fam, bits), Xor: make([]byte, fam.addrLen),
	}
}

// load reads the field of a packet into a register.
func (f Field) load(fam *family, reg uint32, d pick) []any {
	payload := func(base expr.PayloadBase, offset, length uint32) []any {
		return []any{&expr.Payload{DestRegister: reg, Base: base, Offset: offset, Len: length}}
	}
	switch f {
	case FieldSource, FieldClient:
		return payload(expr.PayloadBaseNetworkHeader, fam.saddr, fam.addrLen)
	case FieldDestination:
		return payload(expr.PayloadBaseNetworkHeader, fam.daddr, fam.addrLen)
	case FieldProtocol:
		return []any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg}}
	case FieldPort: // at the same place in TCP, UDP and SCTP
		return payload(expr.PayloadBaseTransportHeader, dportAt, portLen)
	case FieldOriginalDestination:
		return []any{&expr.Ct{Key: fam.ctDestination, Register: reg}}
	case FieldOriginalPort:
		return []any{&expr.Ct{Key: expr.CtKeyPROTODST, Register: reg}}
	case FieldOriginalSource:
		return []any{&expr.Ct{Key: fam.ctSource, Register: reg}}
	case FieldOriginalSourcePort:
		return []any{&expr.Ct{Key: expr.CtKeyPROTOSRC, Register: reg}}
	case FieldPick: // the last field of its keys: the registers after it are free
		return d.expression(fam, reg, reg+1)
	case FieldNumber:
		return []any{&expr.Meta{Key: expr.MetaKeyPRIORITY, Register: reg}}
	}
	panic(f.unknown())
}

// Offsets of the ports in the headers of TCP, UDP and SCTP.
const (
	sportAt = 0
	dportAt = 2
)

// lookup is the key as nft text, with the number that the rule makes for it.
func lookup(id SetID, d pick) string {
	fam := id.family()
	key := id.Layout().lookupText(fam)
	if d.count > 0 {
		key = strings.Replace(key, FieldPick.text(fam), d.text(fam), 1)
	}
	if bits := id.SourceBits(); bits < fam.bits() {
		mask, _ := netip.AddrFromSlice(prefixMask(fam, bits))
		source := FieldClient.text(fam)
		key = strings.Replace(key, source, source+" & "+mask.String(), 1)
	}
	return key
}

// mapped puts the map's value for the packet into a register.
func mapped(id SetID, d pick, reg uint32) []any {
	load, _ := loadKey(id, d)
	return append(load, &expr.Lookup{
		SourceRegister: regKey, DestRegister: reg, IsDestRegSet: true, SetName: id.Name(), SetID: byNameOnly,
	})
}

// dispatch applies the map's verdict for the packet.
func dispatch(id SetID, d pick) Statement {
	return Statement{
		Text:        lookup(id, d) + " vmap @" + id.Name(),
		sets:        []SetID{id},
		Expressions: mapped(id, d, regVerdict),
	}
}

// in matches packets whose key is in the set.
func in(id SetID) Statement {
	load, _ := loadKey(id, pick{})
	return Statement{
		Text:        lookup(id, pick{}) + " @" + id.Name(),
		sets:        []SetID{id},
		Expressions: append(load, &expr.Lookup{SourceRegister: regKey, SetName: id.Name(), SetID: byNameOnly}),
	}
}

// notIn matches packets whose key is not in the set.
func notIn(id SetID) Statement {
	s := in(id)
	s.Text = strings.Replace(s.Text, "@", "!= @", 1)
	s.Expressions[len(s.Expressions)-1].(*expr.Lookup).Invert = true
	return s
}

// translate sends the connection to the map's endpoint for it.
func translate(id SetID, d pick) Statement {
	fam := id.family()
	return Statement{
		Text: fmt.Sprintf("dnat %s to %s map @%s", fam.name, lookup(id, d), id.Name()),
		sets: []SetID{id},
		Expressions: append(mapped(id, d, regKey), &expr.NAT{
			Type: expr.NATTypeDestNAT, Family: uint32(fam.number),
			RegAddrMin: regKey, RegProtoMin: regKey + fam.addrLen/4, Specified: true,
		}),
	}
}

// pickOne makes a number and goes to the chain of that number.
func pickOne(fam *family, d pick, choices []ChainID) Statement {
	var text strings.Builder
	fmt.Fprintf(&text, "%s vmap { ", d.text(fam))
	for i, c := range choices {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "%d : goto %s", i, c.Name())
	}
	text.WriteString(" }")
	return Statement{
		Text:    text.String(),
		Choices: choices,
		Expressions: append(d.expression(fam, regValue, regKey),
			&expr.Lookup{SourceRegister: regValue, DestRegister: regVerdict, IsDestRegSet: true, SetName: anonymousMap}),
	}
}

// goTo continues in another chain and does not return.
func goTo(id ChainID) Statement { return lead("goto ", expr.VerdictGoto, id) }

// jump continues in another chain, and returns if that has no verdict.
func jump(id ChainID) Statement { return lead("jump ", expr.VerdictJump, id) }

func lead(word string, kind expr.VerdictKind, to ChainID) Statement {
	return Statement{
		Text:        word + to.Name(),
		chains:      []ChainID{to},
		Expressions: []any{&expr.Verdict{Kind: kind, Chain: to.Name()}},
	}
}

// back returns to the chain that jumped here.
func back() Statement { return end("return", expr.VerdictReturn) }

// accept lets the packet pass the hook.
func accept() Statement { return end("accept", expr.VerdictAccept) }

func drop() Statement { return end("drop", expr.VerdictDrop) }

func end(word string, kind expr.VerdictKind) Statement {
	return Statement{Text: word, Expressions: []any{&expr.Verdict{Kind: kind}}}
}

// protocolIs matches one protocol.
func protocolIs(p model.Protocol) Statement { return compareProtocol(true, p.String(), byte(p)) }

// protocolIsNot matches all protocols but one.
func protocolIsNot(p model.Protocol) Statement {
	return compareProtocol(false, p.String(), byte(p))
}

func compareProtocol(want bool, name string, number byte) Statement {
	word, op := equality(want)
	return Statement{Text: "meta l4proto " + word + name, Expressions: []any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: regValue},
		&expr.Cmp{Op: op, Register: regValue, Data: []byte{number}},
	}}
}

// resetTCP replies as a host does if no process listens on the port.
func resetTCP() Statement {
	return Statement{
		Text:        "reject with tcp reset",
		Expressions: []any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}},
	}
}

// reject replies with port unreachable.
func reject(fam *family) Statement {
	return Statement{
		Text:        "reject",
		Expressions: []any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: fam.portUnr}},
	}
}

// masquerade makes the node's address the source. The port stays if no other connection has it.
func masquerade() Statement {
	return Statement{Text: "masquerade", Expressions: []any{&expr.Masq{}}}
}

// masqueradeRandomly is masquerade with a port that is always chosen at random.
func masqueradeRandomly() Statement {
	return Statement{Text: "masquerade fully-random", Expressions: []any{&expr.Masq{FullyRandom: true}}}
}
