package metrics

import (
	"context"
	"net/http"
	"strconv"

	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/prometheus/slis"
)

// Probed counts a response to a probe ("healthz", "livez" or "readyz") with its HTTP
// status. Responses to "readyz" count only in the SLI metrics.
func (m *Metrics) Probed(probe string, code int) {
	if responses := m.proxy.probes[probe]; responses != nil {
		responses.WithLabelValues(strconv.Itoa(code)).Inc()
	}
	m.slis.observe("proxy", probe, code == http.StatusOK)
}

// Pinged counts a response of the metrics server's own /healthz, which only shows that
// the process runs.
func (m *Metrics) Pinged() { m.slis.observe("ping", "healthz", true) }

// sliMetrics has kubernetes_healthcheck and kubernetes_healthchecks_total.
type sliMetrics struct{ registry componentmetrics.KubeRegistry }

func newSLIMetrics() *sliMetrics {
	i := &sliMetrics{componentmetrics.NewKubeRegistry()}
	slis.Register(i.registry)
	return i
}

// observe records the result of a named check by a probe of that type.
func (*sliMetrics) observe(name, probe string, ok bool) {
	status := slis.Error
	if ok {
		status = slis.Success
	}
	_ = slis.ObserveHealthcheck(context.Background(), name, probe, status) // returns nil
}
