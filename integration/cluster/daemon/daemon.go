// Package daemon runs a node's Service proxy on a lab's node against an API server:
// the built kube-vmap, or kube-proxy to compare it with. To package process it adds
// requests to the proxy's HTTP endpoints from inside the node, and the cost of the
// process.
package daemon

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"

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
func (d *Daemon) AwaitReady(ctx context.Context) error {
	return d.AwaitStatus(ctx, ReadyURL, http.StatusOK)
}

// AwaitHealthy waits until the proxy answers at [HealthURL] that it is healthy:
// kube-proxy has no [ReadyURL].
func (d *Daemon) AwaitHealthy(ctx context.Context) error {
	return d.AwaitStatus(ctx, HealthURL, http.StatusOK)
}

// AwaitStatus waits until the proxy answers a request for the URL with a status code.
func (d *Daemon) AwaitStatus(ctx context.Context, url string, want int) error {
	return d.Await(ctx, fmt.Sprintf("status %d of %s", want, url), func() error {
		status, body, err := d.Get(url)
		if err == nil && status != want {
			err = fmt.Errorf("ask the proxy: get %s: status %d: %s", url, status, body)
		}
		return err
	})
}

// timeout is for an answer of the proxy's HTTP servers.
const timeout = time.Minute

// Get asks the proxy from inside its node for a URL with a numeric address and
// returns status and body.
func (d *Daemon) Get(url string) (status int, body string, err error) {
	client := http.Client{
		Transport: &http.Transport{DialContext: d.host.DialContext, DisableKeepAlives: true},
		Timeout:   timeout,
	}
	response, err := client.Get(url)
	if err != nil {
		return 0, "", fmt.Errorf("ask the proxy: %w", err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return response.StatusCode, string(b), err
}

// Metrics returns the metrics at [MetricsURL], by name.
func (d *Daemon) Metrics() (map[string]*dto.MetricFamily, error) {
	text, err := d.host.Get(MetricsURL, timeout)
	if err != nil {
		return nil, fmt.Errorf("ask the proxy for metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read the proxy's metrics: %w", err)
	}
	return families, nil
}

// Metric returns the sum of a metric's values over its labels; of a histogram, how many
// were counted. A metric that is not there is an error.
func (d *Daemon) Metric(name string) (sum float64, err error) {
	families, err := d.Metrics()
	if err != nil {
		return 0, err
	}
	f, ok := families[name]
	if !ok {
		return 0, fmt.Errorf("the proxy has no metric %s", name)
	}
	for _, m := range f.Metric {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue() +
			float64(m.GetHistogram().GetSampleCount()) + float64(m.GetSummary().GetSampleCount())
	}
	return sum, nil
}

// Cost is the cost of a process so far.
type Cost struct {
	// CPU is user and system time.
	CPU time.Duration
	// PeakRSS and RSS are bytes of resident memory, at most ever and now.
	PeakRSS, RSS uint64
}

// Cost returns the cost of the process, which must be running.
func (d *Daemon) Cost() (c Cost, err error) {
	p, err := procfs.NewProc(d.PID())
	if err != nil {
		return c, fmt.Errorf("look up what the proxy costs: %w", err)
	}
	stat, err := p.Stat()
	if err != nil {
		return c, fmt.Errorf("look up what the proxy costs: %w", err)
	}
	status, err := p.NewStatus()
	if err != nil {
		return c, fmt.Errorf("look up what the proxy costs: %w", err)
	}
	return Cost{
		CPU:     time.Duration(stat.CPUTime() * float64(time.Second)),
		PeakRSS: status.VmHWM, RSS: status.VmRSS,
	}, nil
}
