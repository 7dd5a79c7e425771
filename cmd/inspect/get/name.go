package get

import (
	"net/netip"
	"strconv"
	"strings"
)

// wanted is a name on the command line. Addresses are compared as values, since there are
// many ways to write one.
type wanted struct {
	text      string
	target    target
	isAddress bool
}

// target is an address with an optional port and protocol: "10.96.0.10",
// "10.96.0.10:53", "[fd00::a]:53/udp", "*:30053/tcp".
type target struct {
	address  netip.Addr // invalid for any address of the node
	any      bool       // it is any address of the node
	port     uint16
	protocol string
}

// newWanted parses a name.
func newWanted(text string) wanted {
	t, ok := parseTarget(text)
	return wanted{text, t, ok}
}

// parseTarget parses an address with an optional port and protocol.
func parseTarget(text string) (s target, ok bool) {
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

// is reports whether it is the name of a row, that of its Service, or its address.
func (w wanted) is(name, service string) bool {
	if w.text == name || w.text == service {
		return true
	}
	if !w.isAddress || name == service {
		return false
	}
	s := w.target
	row, ok := parseTarget(name)
	return ok && s.any == row.any && s.address == row.address && (s.port == 0 || s.port == row.port) &&
		(s.protocol == "" || s.protocol == row.protocol)
}
