// Package takeover removes what kube-proxy left on a node, once no other Service proxy
// runs there. Another process that listens on a proxy's ports counts as one: of a
// kube-proxy that is a process of the host, a container can see nothing else.
//
//	ports free --> legacy.Remove --> kubeproxy.Remove --> done
//	   |   ^              `-- error: again after 5 minutes
//	   v   |
//	ports in use: log, event and status problem OtherProxy; look again every 5 seconds
package takeover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"kube-vmap/cmd/kube-vmap/legacy"
	"kube-vmap/cmd/kube-vmap/listeners"
	"kube-vmap/nft/kernel/kubeproxy"
	"kube-vmap/sync"
)

const (
	// retryPeriod is the wait after a removal that failed.
	retryPeriod = 5 * time.Minute
	// pollPeriod is how often to look for another proxy. It is the period in which our
	// servers retry their ports.
	pollPeriod = 5 * time.Second
	// reason of the event and the problem while another proxy runs, and their text.
	reason     = "OtherProxy"
	otherProxy = "another proxy seems to run; its tables are left untouched until it ends"
)

// Config is what a [Takeover] needs.
type Config struct {
	NodeName string
	// Ports are those of a Service proxy's servers.
	Ports []uint16
	// ExcludeCIDRs are ranges whose IPVS virtual servers are not kube-proxy's, from the
	// configuration's ExcludeCIDRs.
	ExcludeCIDRs []netip.Prefix
	Recorder     sync.Recorder // nil sends no events
	Log          *slog.Logger
}

// Takeover is a task that removes what kube-proxy left.
type Takeover struct {
	Config
	other atomic.Pointer[string] // why another proxy seems to run; nil if none does
}

// New returns a takeover.
func New(c Config) *Takeover { return &Takeover{Config: c} }

// Run returns when everything is removed, or ctx has ended. An error is logged and the
// removal tried again: it is no reason to end the proxy.
func (t *Takeover) Run(ctx context.Context) error {
	for waitUntilAlone(ctx, t.findOther) {
		removed, err := legacy.Remove(ctx, t.Log)
		more, e := kubeproxy.Remove(kubeproxy.Config{ExcludeCIDRs: t.ExcludeCIDRs})
		if removed = append(removed, more...); len(removed) > 0 {
			t.Log.Info("removed what kube-proxy left", "removed", strings.Join(removed, ", "))
		}
		if err = errors.Join(err, e); err == nil {
			return nil
		}
		t.Log.Error("cannot remove everything that kube-proxy left, retrying", "retry_in", retryPeriod.String(), "err", err)
		if !sleep(ctx, retryPeriod) {
			return nil
		}
	}
	return nil
}

// Problems returns the problem that another proxy seems to run, if one does.
func (t *Takeover) Problems() []sync.Problem {
	why := t.other.Load()
	if why == nil {
		return nil
	}
	return []sync.Problem{{Object: t.node(), Reason: reason, Text: otherProxy + ": " + *why}}
}

// waitUntilAlone polls until there is no other proxy. It reports false if ctx ended
// first. If there was one, there must be none twice in a row: it may only be restarting,
// and meanwhile our servers take its ports.
func waitUntilAlone(ctx context.Context, other func() bool) bool {
	needed := 1
	for alone := 0; ; {
		if alone++; other() {
			alone, needed = 0, 2
		}
		if alone == needed {
			return true
		}
		if !sleep(ctx, pollPeriod) {
			return false
		}
	}
}

// findOther reports whether another proxy seems to run, and publishes changes of that.
func (t *Takeover) findOther() bool {
	why, before := portsInUse(t.Ports), t.other.Load()
	switch {
	case why == "" && before != nil:
		t.other.Store(nil)
		t.Log.Info("the other proxy seems to have ended")
	case why != "" && (before == nil || *before != why):
		t.other.Store(&why)
		t.Log.Warn(otherProxy, "reason", why)
		if t.Recorder != nil {
			t.Recorder.Warn(t.node(), reason, otherProxy+": "+why)
		}
	}
	return why != ""
}

// portsInUse returns why another proxy seems to run; empty if none does.
func portsInUse(ports []uint16) string {
	used, err := listeners.Foreign(ports...)
	switch {
	case err != nil:
		return err.Error()
	case len(used) == 1:
		return fmt.Sprintf("port %d is in use", used[0])
	case len(used) > 1:
		return fmt.Sprintf("ports %d are in use", used)
	}
	return ""
}

// node is the Node that the proxy runs on.
func (t *Takeover) node() sync.Object { return sync.Object{Kind: "Node", Name: t.NodeName} }

// sleep waits, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
