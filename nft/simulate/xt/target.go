package xt

import "net/netip"

// A NAT translates the source or the destination (SNAT, DNAT).
type NAT struct {
	Source bool
	Addrs  AddrRange // zero to keep the address
	Ports  PortRange // zero to keep the port
	// RandomPort is true if the port is not the original one, even if the range has it.
	RandomPort bool
	// Persistent is true if the address depends only on the client's.
	Persistent bool
	// Netmap is true if only the bits are replaced in which the addresses of the range are
	// equal.
	Netmap bool
	// Shifted is true if the port is as far behind the beginning of the range as the original one
	// is behind Base.
	Shifted bool
	Base    uint16
}

// A Redirect translates the destination to the node itself.
type Redirect struct {
	Ports      PortRange
	RandomPort bool
}

// A Netmap is a [NAT] with Netmap, of the source at the hooks that translate sources.
type Netmap struct{ Addrs AddrRange }

// A Queue gives the packet to a program that listens at one of the queues. If none does, the
// packet is dropped, or accepted if Bypass is true (NFQUEUE).
type Queue struct {
	From, To uint16
	Bypass   bool
}

// A ChangeSet adds the packet to a set of ipset, or deletes it (SET). A set may be nil.
type ChangeSet struct{ Add, Delete *SetRef }

// A SetMark changes the mark of the packet: the bits of Mask are cleared, then those of Value
// are inverted (MARK).
type SetMark struct{ Value, Mask uint32 }

// A ConnMarkMode is what CONNMARK does.
type ConnMarkMode uint8

// The modes (XT_CONNMARK_*).
const (
	ConnMarkSet ConnMarkMode = iota
	ConnMarkSave
	ConnMarkRestore
)

// A ConnMark sets the mark of the connection, or copies it to or from the packet.
type ConnMark struct {
	Mode                    ConnMarkMode
	Value, Mask, PacketMask uint32
	ShiftLeft, ShiftRight   uint8
}

// Result returns the new mark: of the connection, or of the packet with ConnMarkRestore
// (connmark_tg_shift of net/netfilter/xt_connmark.c).
func (c ConnMark) Result(packet, connection uint32) uint32 {
	shift := func(mark uint32) uint32 { return mark << c.ShiftLeft >> c.ShiftRight }
	switch c.Mode {
	case ConnMarkSave:
		return connection&^c.Mask ^ shift(packet&c.PacketMask)
	case ConnMarkRestore:
		return packet&^c.PacketMask ^ shift(connection&c.Mask)
	}
	return shift(connection&^c.Mask ^ c.Value)
}

// A TProxy gives the packet to a socket of the node, with a mark; if there is no such socket
// the packet is dropped.
type TProxy struct {
	Value, Mask uint32
	To          netip.AddrPort
}

// A Zone puts the packet into a zone of connection tracking (CT).
type Zone struct{}
