package model

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Protocol is a transport protocol. Its value is the IANA number, which packets
// carry.
type Protocol uint8

// The protocols that a Service port can have.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// Protocols lists every protocol that a Service port can have.
var Protocols = [...]Protocol{TCP, UDP, SCTP}

// String returns the name that nft uses, "tcp", "udp" or "sctp", or else the number.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	}
	return fmt.Sprintf("%d", uint8(p))
}

// ParseProtocol returns the protocol with a name, in any case.
func ParseProtocol(name string) (Protocol, error) {
	for _, p := range Protocols {
		if strings.EqualFold(p.String(), name) {
			return p, nil
		}
	}
	return 0, fmt.Errorf("%q is not a protocol of Services: write tcp, udp or sctp", name)
}

// Family is an IP family. Code ranges over [Families] instead of having one copy
// for each.
type Family uint8

// The families, in the order of processing.
const (
	IPv4 Family = iota
	IPv6
)

// Families lists both families.
var Families = [...]Family{IPv4, IPv6}

// FamilyOf returns the family of a valid address. An IPv4 address mapped into IPv6
// counts as IPv6; unmap it first where it may appear.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// String returns the name that Kubernetes uses: "IPv4" or "IPv6".
func (f Family) String() string { return nameOf(f, "Family", familyNames[:]) }

var familyNames = [...]string{IPv4: "IPv4", IPv6: "IPv6"}

// nameOf returns the name of a value, or else its kind and number.
func nameOf[T ~uint8](v T, kind string, names []string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return kind + "(" + strconv.Itoa(int(v)) + ")"
}

// LastAddr returns the highest address of a valid range.
func LastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(b) // of the length it came from
	return last
}
