package get

import (
	"net/netip"
	"strconv"
	"strings"
)

// wanted is a name that was asked for. Addresses are compared as such, for there are many
// ways to write one.
type wanted struct {
	text string
	at   spot
	is   bool // a spot
}

// spot is an address with what may follow it: "10.96.0.10", "10.96.0.10:53",
// "[fd00::a]:53/udp", "*:30053/tcp". What was not named is empty.
type spot struct {
	address  netip.Addr // invalid for any address of the node
	any      bool       // it is any address of the node
	port     uint16
	protocol string
}

// newWanted reads a name.
func newWanted(text string) wanted {
	at, is := newSpot(text)
	return wanted{text, at, is}
}

// newSpot reads an address with what follows it.
func newSpot(text string) (s spot, ok bool) {
	where, protocol, named := strings.Cut(text, "/")
	if named {
		s.protocol = strings.ToLower(protocol)
	}
	if port, wild := strings.CutPrefix(where, "*:"); wild {
		n, err := strconv.ParseUint(port, 10, 16)
		s.any, s.port = true, uint16(n)
		return s, err == nil
	}
	if at, err := netip.ParseAddrPort(where); err == nil {
		s.address, s.port = at.Addr().Unmap(), at.Port()
		return s, true
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(where, "["), "]"))
	s.address = a.Unmap()
	return s, err == nil
}

// meets reports whether a row's name is a spot that was asked for.
func (s spot) meets(row spot) bool {
	return s.any == row.any && s.address == row.address && (s.port == 0 || s.port == row.port) &&
		(s.protocol == "" || s.protocol == row.protocol)
}

// is reports whether a name that was asked for is that of the row: its own, or that
// of its Service, or its address.
func (r *row) is(name wanted) bool {
	if name.text == r.name || name.text == r.service {
		return true
	}
	if !name.is || r.name == r.service {
		return false
	}
	at, is := newSpot(r.name)
	return is && name.at.meets(at)
}
