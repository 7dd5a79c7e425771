package nft

import (
	"hash/fnv"
	"net/netip"

	"kube-vmap/model"
)

// A Config is the part of the rule set that is the same for all Services.
type Config struct {
	// MasqueradeMark is the bit of the packet mark that requests masquerade. Exactly one
	// bit is set.
	MasqueradeMark uint32
	// NoLabels is for kernels without labels of connections (CONFIG_NF_CONNTRACK_LABELS,
	// [kernel.Kernel.SupportsLabels]). Only the mark requests masquerade then, and a program
	// that overwrites it costs connections.
	NoLabels bool
	// Pods is for each family the prefix of pods' addresses; an invalid prefix means that
	// pods cannot be detected.
	Pods [len(model.Families)]netip.Prefix
	// PodInterface, if set, detects pods by the interface where their packets arrive, in
	// both families. Pods is then ignored.
	PodInterface Interface
	// DropInvalid drops TCP packets from endpoints that connection tracking cannot assign
	// to a connection. They would reach the client untranslated, and the client would
	// reply with a reset (kubernetes/kubernetes 74839). For Linux before 6.1 old data is
	// invalid; for later kernels data far beyond the window, which no correct server
	// sends. It costs an element for each address of an endpoint.
	DropInvalid bool
	// CountConnections counts translated connections by original destination and endpoint
	// (rules_count.go).
	CountConnections bool
	// PingTo is for each family the node's address that echo requests to addresses of Services go to
	// (rules_ping.go); without one they are not answered.
	PingTo [len(model.Families)]netip.Addr
	// PassiveHealth has the rules that passive health checks need: one counts first packets that are
	// retransmitted (unanswered in rules_count.go), others exempt packets with the mark of probes.
	PassiveHealth bool
	// Protect makes the socket through which the tables are written their owner, on
	// kernels that can do that ([kernel.Kernel.SupportsOwner]). It does not change rules.
	Protect bool
}

// An Interface is the name of a network interface, or the common prefix of several names.
// The kernel compares names for each packet, so the interface need not exist.
type Interface struct {
	Name   string // at most 15 bytes (IFNAMSIZ)
	Prefix bool
}

// DetectsPods reports whether packets of pods are detected.
func (c *Config) DetectsPods(f model.Family) bool {
	return c.PodInterface.Name != "" || c.Pods[f].IsValid()
}

// ProbeMark returns the mark of probes, which test an endpoint at its own address. Probes pass no
// rule of Services: otherwise an author whose external IP equals another's endpoint would get
// them. The mark is a bit that neither kube-proxy nor the network plugins use by default (Calico
// and Cilium have the upper 16 and bits 8 to 11, the VPC CNI bit 7), and not the one that
// requests masquerade.
func (c *Config) ProbeMark() uint32 {
	const mark = 1 << 13
	if c.MasqueradeMark == mark {
		return mark >> 1
	}
	return mark
}

// masqueradeLabel returns the bit of a connection's label that requests masquerade. It is a high
// one, because other users of labels number them from zero. A proxy with a name has another one, by a
// hash: whoever masquerades a connection is the last to see its first packet, and to count it.
func masqueradeLabel() uint {
	const first, own = 64, 120
	if model.ProxyName() == "" {
		return own
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(model.ProxyName())) // never fails
	return first + 2*uint(h.Sum32()%((own-first)/2))
}

// loopLabel returns the bit for packets to an external address that no port of a Service takes, and
// that the node would send back by the interface they came from: the router there sends them again,
// until their TTL ends. What a node sends elsewhere may reach a host that has the address, such as
// another node, or a load balancer outside. It is no verdict yet, since ports without endpoints are
// rejected or held, at the hook for all refusals.
func loopLabel() uint { return masqueradeLabel() + 1 }

// DefaultMasqueradeMark is kube-proxy's default, masqueradeBit 14.
const DefaultMasqueradeMark = 1 << 14
