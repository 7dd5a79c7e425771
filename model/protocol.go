package model

import "fmt"

// Protocol is a transport protocol by its IANA number, which is also the value
// a packet carries.
type Protocol uint8

// The protocols a Service port can have.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// Protocols lists every protocol a Service port can have.
var Protocols = [...]Protocol{TCP, UDP, SCTP}

// String is the name in nft's words: "tcp", "udp", "sctp", or the number.
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
