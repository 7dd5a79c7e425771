package xtables

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/simulate"
	"kube-vmap/nft/simulate/xt"
)

// Bits of the inverted conditions (IPT_INV_*, IP6T_INV_*).
const (
	invertIn          = 1 << 0
	invertOut         = 1 << 1
	invertSource      = 1 << 3
	invertDestination = 1 << 4
	invertProtocol    = 1 << 6
)

// A ruleDecoder decodes the rules of a table.
type ruleDecoder struct {
	table  *Table
	starts map[int]string // chains by the offset of their first rule
}

// rule returns the expressions of a rule: conditions, matches, target.
func (r ruleDecoder) rule(e entry) ([]any, error) {
	l, v6 := layouts[r.table.family], r.table.family == model.IPv6
	out := r.conditions(e)
	for at := l.elements; at < e.targetAt; {
		size := 0
		if at+extensionData <= e.targetAt {
			size = int(binary.NativeEndian.Uint16(e.bytes[at:]))
		}
		if size < extensionData || at+size > e.targetAt {
			return nil, errors.New("a match is longer than its rule")
		}
		m := decodeExtension(e.bytes[at : at+size])
		v, ok := xt.DecodeMatch(m.name, uint32(m.revision), v6, m.data)
		if !ok {
			v = simulate.UnknownExpression{Name: "xt match " + m.name}
		}
		out = append(out, v)
		at += size
	}
	if target := r.target(e, v6); target != nil {
		out = append(out, target)
	}
	return out, nil
}

// target returns the target; nil if the rule has none.
func (r ruleDecoder) target(e entry, v6 bool) any {
	v, standard := e.verdict()
	switch {
	case !standard:
		if t, ok := xt.DecodeTarget(e.target.name, uint32(e.target.revision), v6, e.target.data); ok {
			return t
		}
		return simulate.UnknownExpression{Name: "xt target " + e.target.name}
	case v == e.at+len(e.bytes):
		return nil
	case v == verdictDrop:
		return &expr.Verdict{Kind: expr.VerdictDrop}
	case v == verdictAccept:
		return &expr.Verdict{Kind: expr.VerdictAccept}
	case v == verdictReturn:
		return &expr.Verdict{Kind: expr.VerdictReturn}
	}
	chain, ok := r.starts[v]
	if !ok {
		return simulate.UnknownExpression{Name: "xt target QUEUE"}
	}
	kind := expr.VerdictJump
	if l := layouts[r.table.family]; e.bytes[l.flags]&l.isGoto != 0 {
		kind = expr.VerdictGoto
	}
	return &expr.Verdict{Kind: kind, Chain: chain}
}

// conditions returns the conditions that every rule may have: struct ipt_ip, struct ip6t_ip6.
func (r ruleDecoder) conditions(e entry) (out []any) {
	l := layouts[r.table.family]
	n, b, inverted := l.addrLen, e.bytes, e.bytes[l.inverted]
	addrs := [...]uint32{model.IPv4: 12, model.IPv6: 8} // offset of the source in the header
	for i, bit := range [...]uint8{invertSource, invertDestination} {
		addr, mask := b[i*n:(i+1)*n], b[(i+2)*n:(i+3)*n]
		if isZero(mask) {
			continue
		}
		out = append(out, &expr.Payload{
			OperationType: expr.PayloadLoad, DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseNetworkHeader,
			Offset: addrs[r.table.family] + uint32(i*n), Len: uint32(n),
		})
		if bytes.Count(mask, []byte{0xff}) < n {
			out = append(out, &expr.Bitwise{
				SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Len: uint32(n), Mask: mask, Xor: make([]byte, n),
			})
		}
		out = append(out, compare(inverted&bit != 0, addr))
	}
	const names = unix.IFNAMSIZ
	for i, key := range [...]expr.MetaKey{expr.MetaKeyIIFNAME, expr.MetaKeyOIFNAME} {
		name := b[4*n+i*names:][:names]
		mask := b[4*n+(i+2)*names:][:names]
		compared := len(bytes.TrimRight(mask, "\x00")) // all bytes, or those before a plus
		if compared == 0 {
			continue
		}
		bit := [...]uint8{invertIn, invertOut}[i]
		out = append(out, &expr.Meta{Key: key, Register: unix.NFT_REG_1}, compare(inverted&bit != 0, name[:compared]))
	}
	protocol := binary.NativeEndian.Uint16(b[l.protocol:])
	if protocol != 0 && (l.hasProtocol == 0 || b[l.flags]&l.hasProtocol != 0) {
		out = append(out, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: unix.NFT_REG_1}, compare(inverted&invertProtocol != 0, []byte{byte(protocol)}))
	}
	const fragment = 1 // IPT_F_FRAG
	if r.table.family == model.IPv4 && b[l.flags]&fragment != 0 {
		out = append(out, simulate.UnknownExpression{Name: "xt match fragment"})
	}
	return out
}

func compare(inverted bool, data []byte) *expr.Cmp {
	op := expr.CmpOpEq
	if inverted {
		op = expr.CmpOpNeq
	}
	return &expr.Cmp{Op: op, Register: unix.NFT_REG_1, Data: data}
}

func isZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
