package daemon

import (
	"context"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
)

// Default URLs of a proxy, as seen from its node.
const (
	ReadyURL   = "http://127.0.0.1:10256/readyz"
	HealthURL  = "http://127.0.0.1:10256/healthz"
	MetricsURL = "http://127.0.0.1:10249/metrics"
)

// Daemon is a proxy that was started. Its methods may be called concurrently.
type Daemon struct {
	*process.Process
	host *lab.Host
}

// Start starts a proxy. The caller must end it. See [process.Start].
func Start(ctx context.Context, c process.Config) (*Daemon, error) {
	p, err := process.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Daemon{Process: p, host: c.Host}, nil
}

// AwaitReady waits until kube-vmap answers at [ReadyURL] that it is ready.
func (d *Daemon) AwaitReady(ctx context.Context) error { return d.awaitOK(ctx, ReadyURL) }

// AwaitHealthy waits until the proxy answers at [HealthURL] that it is healthy:
// kube-proxy has no [ReadyURL].
func (d *Daemon) AwaitHealthy(ctx context.Context) error { return d.awaitOK(ctx, HealthURL) }

func (d *Daemon) awaitOK(ctx context.Context, url string) error {
	return d.Await(ctx, "status 200 of "+url, func() error { return d.ok(url) })
}
