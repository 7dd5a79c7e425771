package nft

import (
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// A connection to a Service that holds ([model.VerdictHold]) is dropped before connection tracking
// confirms it. No entry stays behind, so the transaction that adds an endpoint decides about the
// next packet of the client.
//
//	map no-endpoint-services   10.96.0.10 . tcp . 80 : goto hold
//	set held                   10.96.0.10 . tcp . 80 expires 1m12s
//	set waiting                192.0.2.7 . 10.96.0.10 . tcp . 80 expires 20s
//
// Frontends have a set of their own: clients, whose addresses may be forged, fill only the other
// one, and cannot hide that a client waits for a frontend.

const (
	// HeldTime is how long a frontend remains in [SetHeld] after the last packet.
	HeldTime = 90 * time.Second
	// WaitingTime is how long a client remains in [SetWaiting] after its last packet. A client of TCP
	// sends its first packet again after 1, 3, 7, 15 and 31 s, and a sixth time 32 s later.
	WaitingTime = 35 * time.Second
	// MaxHeld is how many frontends, and how many clients, are recorded in each family. To list a set
	// that packets fill costs the kernel the square of its size; see [MaxConnectionCounts].
	MaxHeld = 1 << 16
)

// holdRules record the frontend and the client, and drop the packet. A packet in the middle of a
// connection of TCP, whose entry of connection tracking is removed, will find no server that knows it:
// its client learns that immediately, and does not wake the Service. If a set is full, its rule
// does not match. Who reads that the counter has changed finds the packet in the sets.
func holdRules(f model.Family) []Rule {
	return []Rule{
		{notSYN(), goTo(ChainID{Family: f, Kind: ChainReject})},
		{withPorts(), renew(SetID{Family: f, Kind: SetHeld})},
		{withPorts(), renew(SetID{Family: f, Kind: SetWaiting})},
		{countIn(CounterHeld)},
		{drop()},
	}
}

// notSYN matches packets of TCP that do not open a connection.
func notSYN() Statement {
	const flagsAt, syn = 13, 1 << 1
	return Statement{Text: "tcp flags ! syn", Expressions: append(protocolIs(model.TCP).Expressions,
		&expr.Payload{DestRegister: regValue, Base: unix.NFT_PAYLOAD_TRANSPORT_HEADER, Offset: flagsAt, Len: 1},
		&expr.Bitwise{SourceRegister: regValue, DestRegister: regValue, Len: 1, Mask: []byte{syn}, Xor: []byte{0}},
		&expr.Cmp{Op: unix.NFT_CMP_EQ, Register: regValue, Data: []byte{0}},
	)}
}

// renew adds the packet's key to the set, or restarts its timeout.
func renew(id SetID) Statement {
	return changeSet(id, "update", "", &expr.Dynset{Operation: unix.NFT_DYNSET_OP_UPDATE})
}
