package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kube-vmap/integration/cluster/truth"
)

// program is a program that is started several times, and the cost.
type program struct {
	cost
	label string
	start func(context.Context) (*timedProcess, error)
	// ready waits until the process is ready and returns the time since its start.
	ready func(context.Context, *timedProcess) (time.Duration, error)
	// ours is set if it has kube-vmap's log and metrics.
	ours bool
}

// informers returns the program for the floor.
func (w *world) informers() *program {
	return &program{
		label: "informers alone (floor)", ready: line("synced"),
		start: func(ctx context.Context) (*timedProcess, error) {
			return w.start(ctx, w.programs.informers, "--kubeconfig="+w.kubeconfig, "--node="+nodeName)
		},
	}
}

// kubeVMap returns the program that is measured.
func (w *world) kubeVMap(label string, flags ...string) *program {
	flags = append(w.proxyFlags(), flags...)
	return &program{
		label: label, ready: line("ready"), ours: true,
		start: func(ctx context.Context) (*timedProcess, error) { return w.start(ctx, w.programs.kubeVMap, flags...) },
	}
}

// kubeProxy returns kube-proxy, with the shortest possible period between syncs.
func (w *world) kubeProxy() *program {
	flags := append(w.proxyFlags(), "--proxy-mode=nftables", "--iptables-min-sync-period=1ms",
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0")
	return &program{
		label: "kube-proxy, nftables", ready: synced,
		start: func(ctx context.Context) (*timedProcess, error) { return w.start(ctx, w.programs.kubeProxy, flags...) },
	}
}

// proxyFlags returns the flags for a proxy of either kind.
func (w *world) proxyFlags() []string {
	return []string{"--kubeconfig=" + w.kubeconfig, "--hostname-override=" + nodeName, "--cluster-cidr=" + truth.PodRanges}
}

// line waits for a line of the process's log.
func line(message string) func(context.Context, *timedProcess) (time.Duration, error) {
	return func(ctx context.Context, p *timedProcess) (time.Duration, error) { return p.awaitLine(ctx, message) }
}

// synced waits until kube-proxy has written the rules of both families.
func synced(ctx context.Context, p *timedProcess) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = p.Await(ctx, "a sync of each IP family", func() error {
		families, err := p.Metrics()
		if err != nil {
			return err
		}
		took = 0
		done := families["kubeproxy_sync_proxy_rules_last_timestamp_seconds"].GetMetric()
		for _, m := range done {
			at := time.UnixMicro(int64(m.GetGauge().GetValue() * 1e6))
			if at.Before(p.began) {
				return errors.New("a family without sync")
			}
			took = max(took, at.Sub(p.began))
		}
		if len(done) < 2 {
			return fmt.Errorf("syncs of %d families", len(done))
		}
		return nil
	})
	return took, err
}
