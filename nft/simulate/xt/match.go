package xt

import "net/netip"

// NoEffect is a match or target that changes nothing and always matches: a counter, a log.
type NoEffect struct{ Name string }

// A Comment is a comment, which always matches.
type Comment struct{ Text string }

// Never is a match of other protocols than TCP, UDP and SCTP.
type Never struct{ Name string }

// A Mark matches the mark of the packet, or of its connection.
type Mark struct {
	Value, Mask        uint32
	Connection, Invert bool
}

// A PortRange is a range of ports; both ends belong to it.
type PortRange struct{ From, To uint16 }

// Contains reports whether a port is in the range.
func (r PortRange) Contains(port uint16) bool { return r.From <= port && port <= r.To }

// AnyPort has all ports.
var AnyPort = PortRange{0, 65535}

// Ports matches what tcp, udp and sctp match.
type Ports struct {
	Source, Destination             PortRange
	InvertSource, InvertDestination bool
	// FlagMask and Flags are the flags of TCP that are looked at, and those of them that
	// must be set.
	FlagMask, Flags uint8
	InvertFlags     bool
	// Option is an option of TCP; zero means any.
	Option uint8
	// Chunks are the types of chunks of SCTP; nil means any.
	Chunks       *Chunks
	InvertChunks bool
}

// Chunks are types of SCTP's chunks.
type Chunks struct {
	Types [256]bool
	// How is SCTP_CHUNK_MATCH_ANY, _ALL or _ONLY.
	How uint32
	// Flags is true if flags of a chunk are matched, too.
	Flags bool
}

// How chunks match.
const (
	ChunkAny  = 1
	ChunkAll  = 2
	ChunkOnly = 4
)

// A Side is whose ports or address a match is about.
type Side uint8

// The sides, as multiport numbers them.
const (
	Source Side = iota
	Destination
	Either
)

// MultiPort matches one of several ranges.
type MultiPort struct {
	Side   Side
	Ports  []PortRange
	Invert bool
}

// AddrType matches types of addresses: bits 1 << RTN_*. Zero means any.
type AddrType struct {
	Source, Destination             uint16
	InvertSource, InvertDestination bool
	// OfInterface is true if the address must be one of the interface.
	OfInterface bool
}

// An IPRange matches ranges of addresses. A side without a range matches any address.
type IPRange struct {
	Source, Destination             AddrRange
	InvertSource, InvertDestination bool
}

// An AddrRange is a range of addresses; both ends belong to it.
type AddrRange struct{ From, To netip.Addr }

// Contains reports whether an address is in the range.
func (r AddrRange) Contains(a netip.Addr) bool { return !a.Less(r.From) && !r.To.Less(a) }

// ConntrackFlags are the conditions of a [Conntrack] (XT_CONNTRACK_*).
type ConntrackFlags uint16

// The conditions.
const (
	ConntrackState ConntrackFlags = 1 << iota
	ConntrackProtocol
	ConntrackOriginalSource
	ConntrackOriginalDestination
	ConntrackReplySource
	ConntrackReplyDestination
	ConntrackStatus
	ConntrackExpires
	ConntrackOriginalSourcePort
	ConntrackOriginalDestinationPort
	ConntrackReplySourcePort
	ConntrackReplyDestinationPort
	ConntrackDirection
)

// States of a [Conntrack] (XT_CONNTRACK_STATE_*).
const (
	StateInvalid     = 1 << 0
	StateEstablished = 1 << 1
	StateRelated     = 1 << 2
	StateNew         = 1 << 3
	StateSourceNAT   = 1 << 6
	StateDestNAT     = 1 << 7
	StateUntracked   = 1 << 8
)

// A Conntrack matches the packet's connection.
type Conntrack struct {
	Flags, Invert ConntrackFlags
	State, Status uint16
	Protocol      uint8
	// Addrs and Ports are the original source and destination, and those of the reply.
	Addrs [4]MaskedAddr
	Ports [4]PortRange
}

// A MaskedAddr is an address of which the bits of a mask are compared.
type MaskedAddr struct{ Addr, Mask netip.Addr }

// Contains reports whether an address is equal in the bits of the mask.
func (m MaskedAddr) Contains(a netip.Addr) bool {
	want, mask, got := m.Addr.AsSlice(), m.Mask.AsSlice(), a.AsSlice()
	if len(want) != len(got) || len(mask) != len(got) {
		return false
	}
	for i := range got {
		if got[i]&mask[i] != want[i] {
			return false
		}
	}
	return true
}

// A Statistic matches a share of the packets, at random or in turn.
type Statistic struct {
	Probability float64
	InTurn      bool
	Invert      bool
}

// A Recent matches addresses in a list of recent ones, for Seconds. Set adds the address, and
// matches always.
type Recent struct {
	Name        string
	Set, Invert bool
	Destination bool // its address, not the source
	Seconds     uint32
}

// An Owner matches the socket of a program on the node.
type Owner struct{ Match, Invert uint8 }

// OwnerSocket is the condition that there is a socket (XT_OWNER_SOCKET).
const OwnerSocket = 1 << 2

// PhysDev matches ports of a bridge (XT_PHYSDEV_OP_*).
type PhysDev struct{ Match, Invert uint8 }

// Conditions of a [PhysDev] that are about the port by which the packet came in, and about
// whether the packet is bridged, which it is not if it is routed.
const (
	PhysDevIn      = 1 << 0
	PhysDevOut     = 1 << 1
	PhysDevBridged = 1 << 2
	PhysDevIsIn    = 1 << 3
	PhysDevIsOut   = 1 << 4
)

// RPFilter matches packets from an address to which the node has a route by the interface
// they came in by.
type RPFilter struct{ Loose, Mark, AcceptLocal, Invert bool }
