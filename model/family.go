package model

import (
	"net/netip"
	"strconv"
)

// Family is an IP family: data for loops, never a reason for a second copy of
// code.
type Family uint8

// The families, in the order everything is done.
const (
	IPv4 Family = iota
	IPv6
)

// Families lists both families, so that code can range over them.
var Families = [...]Family{IPv4, IPv6}

// FamilyOf tells the family of a valid address. An IPv4 address mapped into
// IPv6 counts as IPv6; unmap it first where it may appear.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// String is the family's name as Kubernetes writes it: "IPv4" or "IPv6".
func (f Family) String() string {
	switch f {
	case IPv4:
		return "IPv4"
	case IPv6:
		return "IPv6"
	}
	return "Family(" + strconv.Itoa(int(f)) + ")"
}
