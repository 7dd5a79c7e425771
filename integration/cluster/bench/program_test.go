package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/daemon"
	"kube-vmap/integration/process"
)

// program is a program that is started several times, and the cost.
type program struct {
	*world
	cost
	name, path string
	args       []string
	// ready waits until the process is ready and returns the time since its start.
	ready func(context.Context, *running) (time.Duration, error)
}

// cost is the cost of a program's starts.
type cost struct {
	took, cpu report.Times          // from exec until it was ready
	peak      report.Sample[uint64] // of resident memory
}

// running is a program that runs on the node.
type running struct {
	*daemon.Daemon
	began time.Time
}

const (
	// patience is the limit for everything that is awaited.
	patience = 10 * time.Minute
	// rest is the time between a program's start and the measurement of its memory and CPU:
	// what it does meanwhile is part of the start.
	rest = time.Second
)

// start starts the program and records the cost. The end of the benchmark kills it.
func (p *program) start(b *testing.B) *running {
	b.Helper()
	began := time.Now()
	r := &running{clustertest.Start(b, process.Config{Program: p.path, Host: p.Lab.Node.Host, Args: p.args}), began}
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	took, err := p.ready(ctx, r)
	clustertest.Must(b, err)
	<-time.After(rest)
	memory, err := r.Cost()
	clustertest.Must(b, err)
	p.took.Add(took)
	p.cpu.Add(r.cpu(b))
	p.peak.Add(memory.PeakRSS)
	return r
}

func (p *program) once(b *testing.B) {
	b.Helper()
	clustertest.Must(b, p.start(b).Stop())
}

// cpu returns the processor time of the process and of its child processes so far.
func (r *running) cpu(b *testing.B) time.Duration {
	b.Helper()
	proc, err := procfs.NewProc(r.PID())
	clustertest.Must(b, err)
	stat, err := proc.Stat()
	clustertest.Must(b, err)
	const tick = 10 * time.Millisecond // USER_HZ is 100 everywhere
	return time.Duration(int(stat.UTime+stat.STime)+stat.CUTime+stat.CSTime) * tick
}

// logged waits for a line of the process's log.
func logged(message string) func(context.Context, *running) (time.Duration, error) {
	return func(ctx context.Context, r *running) (time.Duration, error) {
		line, err := r.AwaitLog(ctx, 0, message, process.Message(message))
		if err != nil {
			return 0, err
		}
		at, err := time.Parse(time.RFC3339Nano, line["time"])
		return at.Sub(r.began), err
	}
}

// kubeProxy returns kube-proxy, with the shortest possible period between syncs.
func (w *world) kubeProxy(b *testing.B) *program {
	b.Helper()
	return &program{
		world: w, name: "kube-proxy", path: kubeProxy.program(b), ready: synced,
		args: slices.Concat(w.flags, kubeProxy.flags, []string{"--iptables-min-sync-period=1ms"}),
	}
}

// kubeProxyFlags are for a namespace, in which limits of connection tracking cannot be changed.
var kubeProxyFlags = []string{
	"--proxy-mode=nftables", "--conntrack-max-per-core=0",
	"--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
}

// synced waits until kube-proxy has written the rules of both families.
func synced(ctx context.Context, r *running) (took time.Duration, err error) {
	err = r.Await(ctx, "a sync of each IP family", func() error {
		families, err := r.Metrics()
		if err != nil {
			return err
		}
		took = 0
		done := families["kubeproxy_sync_proxy_rules_last_timestamp_seconds"].GetMetric()
		for _, m := range done {
			at := time.UnixMicro(int64(m.GetGauge().GetValue() * 1e6))
			if at.Before(r.began) {
				return errors.New("a family without sync")
			}
			took = max(took, at.Sub(r.began))
		}
		if len(done) < 2 {
			return fmt.Errorf("syncs of %d families", len(done))
		}
		return nil
	})
	return took, err
}
