package simulate

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
)

// IPSets reads the sets of ipset.
type IPSets interface {
	// Contains reports whether a set has what the packet has. The error is of [Undecided] if
	// that is not known.
	Contains(IPSetQuery) (bool, error)
}

// An IPSetQuery is a set and a packet.
type IPSetQuery struct {
	Index      uint16 // of the set
	Dimensions uint8
	// FromSource has bit n if the n-th part of the key, counted from one, is of the source and
	// not of the destination.
	FromSource uint8
	// ReturnNoMatch asks for the exceptions of the set.
	ReturnNoMatch       bool
	Family              model.Family
	Protocol            model.Protocol
	Source, Destination netip.AddrPort
	In, Out             string
	Mark                uint32
}

// Undecided returns an error for what is not known.
func Undecided(why string) error { return undecidedError(why) }

func byteOf(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// queue gives the packet to a program, which may drop it.
func (w *walk) queue(number uint16) (verdict, error) {
	if w.assume(w.doubt(undecidedError(fmt.Sprintf("queue %d, at which a program decides", number)))) {
		return verdict{kind: expr.VerdictDrop}, nil
	}
	return verdictAccept, nil
}
