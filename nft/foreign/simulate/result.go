package simulate

import (
	"net/netip"

	"kube-vmap/nft/foreign/simulate/path"
)

// A Result is the simulated path of a packet and its outcomes.
type Result struct {
	Packet Packet
	// In is the interface that the packet comes in by; empty if the node sends it.
	In string
	// ClientVia is the next hop towards the client; invalid if the client is on a link of
	// the node, or the node itself.
	ClientVia netip.Addr
	// ToNode is true if the destination is an address of the node itself.
	ToNode bool
	// Service, Kind and Steps are noted, of all walks together, and so are Affinity and Faults.
	Service, Kind string
	Steps         []path.Step
	Affinity      *path.Affinity
	Faults        []string
	// Outcomes are the possible outcomes, the most probable first. There are several only
	// if something was picked.
	Outcomes []path.Outcome
	// Unexplored is what was not simulated.
	Unexplored path.Unexplored
	// Flow is the connection that the packet belongs to; nil if it begins one. Flows are
	// other connections of the client to the same address and port.
	Flow  *Flow
	Flows []Flow
	// IfNew is set with Flow: the outcomes of a packet that begins a new connection.
	IfNew           []path.Outcome
	IfNewUnexplored path.Unexplored
	Doubts          []Doubt
	// NotFollowed names rules that packets pass and that the simulation does not know.
	NotFollowed []string
}
