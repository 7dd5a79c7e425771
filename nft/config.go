package nft

import (
	"net/netip"

	"kube-vmap/model"
)

// Config is what shapes the rule set and is the same for all Services.
type Config struct {
	// MasqueradeMark is the bit of the packet mark that asks for masquerade.
	// Exactly one bit is set.
	MasqueradeMark uint32
	// Pods is for each family the prefix that pods' addresses come from; an
	// invalid prefix means that pods cannot be told from others.
	Pods [len(model.Families)]netip.Prefix
	// PodInterface, if it is set, tells pods by the interface their packets come
	// in by, in both families; Pods is not looked at then.
	PodInterface Interface
	// DropInvalid drops TCP packets of endpoints that connection tracking cannot
	// place. They would reach the client untranslated, which would answer with a
	// reset (kubernetes/kubernetes 74839). Linux before 6.1 takes old data for such;
	// later ones data far beyond the window, which no sound server sends. It costs
	// an element for each address of an endpoint.
	DropInvalid bool
	// CountConnections counts connections that were translated, by what they asked for and the
	// endpoint they got (rules_count.go).
	CountConnections bool
	// Protect makes the tables belong to the socket they are written through, for
	// kernels that can ([kernel.Kernel.SupportsOwner]). It is no part of what the rules
	// say.
	Protect bool
}

// Interface names a network interface, or all whose names begin alike. None need
// exist: they are compared by name, packet by packet.
type Interface struct {
	Name   string // at most 15 bytes (IFNAMSIZ)
	Prefix bool
}

// DetectsPods reports whether packets of pods can be told from others.
func (c *Config) DetectsPods(f model.Family) bool {
	return c.PodInterface.Name != "" || c.Pods[f].IsValid()
}

// DefaultMasqueradeMark is kube-proxy's default, masqueradeBit 14.
const DefaultMasqueradeMark = 1 << 14
