package sync

import (
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// Config is what a [Loop] is told once.
type Config struct {
	NodeName string
	// MasqueradeAll masquerades every connection to a ClusterIP.
	MasqueradeAll bool
	Rules         nft.Config
	// PodsFromNode takes Rules.Pods from the Node object and follows it (detect
	// local mode NodeCIDR).
	PodsFromNode bool

	// SyncPeriod is how long what failed waits before it is tried again, at most;
	// zero means 30 s.
	SyncPeriod time.Duration
	// MinSyncPeriod is how long the kernel is left alone after each batch; what
	// happens meanwhile is in the next one. Zero means not at all.
	MinSyncPeriod time.Duration
	// Observer and Recorder are told what happens; nil means nobody is.
	Observer Observer
	Recorder Recorder
}

// options are what the model needs of it.
func (c *Config) options() model.Options {
	o := model.Options{MasqueradeAll: c.MasqueradeAll}
	for _, f := range model.Families {
		o.DetectsPods[f] = c.Rules.DetectsPods(f)
	}
	return o
}
