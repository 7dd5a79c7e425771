package model

import (
	"net/netip"
	"slices"
)

// shift is what became of an address of an offer: the traits of who counted there
// before and of who does after, or none if nobody.
type shift struct {
	at            netip.AddrPort
	before, after traits
}

// concerning are the shifts of those who meet one of the wishes only before or
// only after.
func concerning(shifts []shift, wishes ...traits) []shift {
	var out []shift
	for _, s := range shifts {
		if s.before.meets(wishes...) != s.after.meets(wishes...) {
			out = append(out, s)
		}
	}
	return out
}

// amended is a sorted list of those who meet one of the wishes, after shifts: the
// same one if these do not concern it, or else a copy.
func amended(list []netip.AddrPort, shifts []shift, wishes ...traits) []netip.AddrPort {
	shifts = concerning(shifts, wishes...)
	n := len(list)
	for _, s := range shifts {
		if s.after.meets(wishes...) {
			n++
		} else {
			n--
		}
	}
	switch {
	case len(shifts) == 0:
		return list
	case n == 0:
		return nil
	}
	out := make([]netip.AddrPort, 0, n)
	for _, s := range shifts {
		at, _ := slices.BinarySearchFunc(list, s.at, netip.AddrPort.Compare)
		out, list = append(out, list[:at]...), list[at:]
		if s.after.meets(wishes...) {
			out = append(out, s.at)
		} else {
			list = list[1:]
		}
	}
	return append(out, list...)
}
