package xt

import "net/netip"

// NoEffect is a match or target that changes nothing and always matches: a counter, a log.
type NoEffect struct{ Name string }

// A Comment is a comment, which always matches.
type Comment struct{ Text string }

// Never is a match of other protocols than TCP, UDP and SCTP, or of extension headers of IPv6,
// which the packets do not have.
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

// A Recent matches addresses in a list of recent ones, which were seen Hits times in Seconds;
// zero means that it does not matter. Set adds the address and Remove deletes it.
type Recent struct {
	Name                string
	Set, Remove, Invert bool
	Destination         bool // its address, not the source
	TTL                 bool // which must be the same, too
	Seconds, Hits       uint32
	Mask                netip.Addr // of the addresses in the list; invalid means all bits
}

// A Helper matches connections that a helper of connection tracking expects.
type Helper struct{ Invert bool }

// A ConnLabel matches a label of the connection; Set sets it, and matches if that succeeds.
type ConnLabel struct {
	Bit         uint16
	Set, Invert bool
}

// A PacketType matches what the link delivered the packet as: PACKET_HOST and others.
type PacketType struct {
	Type   uint8
	Invert bool
}

// A Length matches the length of the packet.
type Length struct {
	From, To uint16
	Invert   bool
}

// A CGroup matches the group of the program on the node that sends the packet.
type CGroup struct{}

// A Socket matches packets for which the node has a socket: not one of any address unless
// NoWildcard is true, and only transparent ones if Transparent is.
type Socket struct{ Transparent, NoWildcard bool }

// A SetRef is a set of ipset with what is looked up in it.
type SetRef struct {
	Index      uint16
	Dimensions uint8
	// FromSource has bit n if the n-th part of the key, counted from one, is of the source and
	// not of the destination.
	FromSource uint8
}

// An InSet matches what is in a set of ipset.
type InSet struct {
	SetRef
	Invert bool
	// ReturnNoMatch is true if it matches the exceptions instead (nomatch).
	ReturnNoMatch bool
	// Counters is true if counters of the element must have some value, too.
	Counters bool
}

// An Owner matches the socket of a program on the node.
type Owner struct {
	Match, Invert uint8
	// HasRoot and HasRootGroup are true if the ranges of users and groups have number 0.
	HasRoot, HasRootGroup bool
}

// Conditions of an [Owner]: the user, the group, that there is a socket (XT_OWNER_*).
const (
	OwnerUser   = 1 << 0
	OwnerGroup  = 1 << 1
	OwnerSocket = 1 << 2
)

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
