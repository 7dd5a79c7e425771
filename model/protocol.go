package model

import (
	"fmt"
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
