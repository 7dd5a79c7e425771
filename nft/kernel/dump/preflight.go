package dump

import (
	"encoding/binary"

	"github.com/google/nftables/expr"

	"kube-vmap/nft/simulate/xt"
)

// Accepts reports whether the rule has the verdict accept.
func (r *Rule) Accepts() bool {
	for _, e := range r.Expressions {
		if v, is := e.(*expr.Verdict); is && v.Kind == expr.VerdictAccept {
			return true
		}
	}
	return false
}

// MarkBits returns the bits of the packet mark that the rule may change. What the rule matches
// does not matter, and neither do expressions that are not understood.
func (r *Rule) MarkBits() (changed uint32) {
	// keeps are the bits of the mark that are in the register which is written back: all
	// that a mask keeps, after the mark was loaded.
	var keeps uint32
	for _, e := range r.Expressions {
		switch e := e.(type) {
		case *expr.Meta:
			switch {
			case e.Key != expr.MetaKeyMARK:
				keeps = 0
			case e.SourceRegister:
				changed |= ^keeps
			default:
				keeps = ^uint32(0)
			}
		case *expr.Bitwise:
			if len(e.Mask) != 4 || len(e.Xor) != 4 {
				keeps = 0
				continue
			}
			keeps &= binary.NativeEndian.Uint32(e.Mask) &^ binary.NativeEndian.Uint32(e.Xor)
		case xt.SetMark:
			changed |= e.Value | e.Mask
		case xt.ConnMark:
			if e.Mode == xt.ConnMarkRestore {
				changed |= e.PacketMask
			}
		case *expr.Cmp, *expr.Range, *expr.Counter, *expr.Verdict: // load nothing
		default:
			keeps = 0 // the register may be loaded
		}
	}
	return changed
}
