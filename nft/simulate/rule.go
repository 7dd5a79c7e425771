package simulate

import (
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
)

// Jump returns the chain that a rule jumps or goes to; empty if it does not.
func (r Rule) Jump() string {
	if len(r.Expressions) == 0 {
		return ""
	}
	v, ok := r.Expressions[len(r.Expressions)-1].(*expr.Verdict)
	if !ok {
		return ""
	}
	return v.Chain
}

// Comment returns the comment of a rule of iptables.
func (r Rule) Comment() string {
	for _, e := range r.Expressions {
		if x, ok := e.(Extension); ok && x.Name == "comment" {
			return x.info.text(0, len(x.info.data))
		}
	}
	return ""
}

// Accepts reports whether the rule has the verdict accept.
func (r Rule) Accepts() bool {
	return slices.ContainsFunc(r.Expressions, func(e any) bool {
		v, is := e.(*expr.Verdict)
		return is && v.Kind == expr.VerdictAccept
	})
}

// RequiredSource returns the range of sources without which a rule does not match; invalid if
// the rule does not compare the source with one.
func RequiredSource(r Rule, f model.Family) netip.Prefix {
	at := addressFields[f]
	for i, e := range r.Expressions {
		p, ok := e.(*expr.Payload)
		if !ok || p.OperationType != expr.PayloadLoad || p.Base != expr.PayloadBaseNetworkHeader ||
			int(p.Offset) != at.source || int(p.Len) > at.length {
			continue
		}
		bits := int(p.Len) * 8 // iptables-nft loads only the bytes of the prefix
		rest := r.Expressions[i+1:]
		if len(rest) > 1 {
			if mask, ok := rest[0].(*expr.Bitwise); ok {
				bits, _ = maskBits(mask.Mask)
				rest = rest[1:]
			}
		}
		if len(rest) > 0 {
			if c, ok := rest[0].(*expr.Cmp); ok && c.Op == expr.CmpOpEq {
				addr := make([]byte, at.length)
				copy(addr, c.Data)
				a, _ := netip.AddrFromSlice(addr)
				return netip.PrefixFrom(a, bits)
			}
		}
	}
	return netip.Prefix{}
}
