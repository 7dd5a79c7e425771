package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"kube-vmap/cmd/kube-vmap/legacy"
	"kube-vmap/cmd/kube-vmap/listeners"
	"kube-vmap/nft/kernel/leftovers"
	"kube-vmap/sync"
)

const (
	// takeOverPeriod is how long what could not be removed is left alone.
	takeOverPeriod = 5 * time.Minute
	// otherProxyPeriod is how often to look whether another proxy still runs. It is
	// the period in which our servers retry their ports.
	otherProxyPeriod = 5 * time.Second
	// reasonOtherProxy is that of the event and the problem while it does.
	reasonOtherProxy = "OtherProxy"
	// otherProxyRuns is what they and the log say, and what follows.
	otherProxyRuns = "another proxy seems to run; its tables are left untouched until it ends"
)

// takeOver removes what kube-proxy left, once no other proxy runs. What cannot be
// removed is no reason to end.
func (p *proxy) takeOver(ctx context.Context) error {
	for untilAlone(ctx, p.findOther) {
		removed, err := legacy.Remove(ctx, p.log)
		more, e := leftovers.Remove(leftovers.Config{ExcludeCIDRs: p.config.ExcludeCIDRs()})
		if removed = append(removed, more...); len(removed) > 0 {
			p.log.Info("removed what kube-proxy left", "removed", strings.Join(removed, ", "))
		}
		if err = errors.Join(err, e); err == nil {
			return nil
		}
		p.log.Error("not all that kube-proxy left could be removed, trying again", "every", takeOverPeriod.String(), "err", err)
		if !pause(ctx, takeOverPeriod) {
			return nil
		}
	}
	return nil
}

// untilAlone looks until there is no other proxy. It reports false if ctx ended first.
// Where there was one, there must be none twice in a row: it may only be restarted, and
// in the meantime our servers take its ports.
func untilAlone(ctx context.Context, other func() bool) bool {
	needed := 1
	for alone := 0; ; {
		if alone++; other() {
			alone, needed = 0, 2
		}
		if alone == needed {
			return true
		}
		if !pause(ctx, otherProxyPeriod) {
			return false
		}
	}
}

// findOther reports whether another process listens on a proxy's ports. Of a
// kube-proxy that is a process of the host, a container can see nothing else.
func (p *proxy) findOther() bool {
	reason := otherProxy(p.config.ProxyPorts())
	p.reportOther(reason)
	return reason != ""
}

// otherProxy returns why another proxy seems to run; empty if none does.
func otherProxy(ports []uint16) string {
	taken, err := listeners.Foreign(ports...)
	switch {
	case err != nil:
		return err.Error()
	case len(taken) == 1:
		return fmt.Sprintf("port %d is in use", taken[0])
	case len(taken) > 1:
		return fmt.Sprintf("ports %d are in use", taken)
	}
	return ""
}

// reportOther reports that another proxy seems to run, or no longer, when that
// changes.
func (p *proxy) reportOther(reason string) {
	before := p.otherProxy.Load()
	switch {
	case reason == "" && before != nil:
		p.otherProxy.Store(nil)
		p.log.Info("no other proxy seems to run any more")
	case reason != "" && (before == nil || *before != reason):
		p.otherProxy.Store(&reason)
		p.log.Warn(otherProxyRuns, "reason", reason)
		if p.events != nil {
			p.events.Warn(p.node(), reasonOtherProxy, otherProxyRuns+": "+reason)
		}
	}
}

// node is the Node that the proxy runs on.
func (p *proxy) node() sync.Object { return sync.Object{Kind: "Node", Name: p.loop.NodeName} }

// pause waits, and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
