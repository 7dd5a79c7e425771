package metrics

import (
	"context"
	"net/http"
	"strconv"

	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/prometheus/slis"
)

// Probed counts an answer to a probe: "healthz", "livez" or "readyz", with its
// HTTP status.
func (m *Metrics) Probed(probe string, code int) {
	if answers := m.proxy.probes[probe]; answers != nil {
		answers.WithLabelValues(strconv.Itoa(code)).Inc()
	}
	m.slis.checked("proxy", probe, code == http.StatusOK)
}

// Pinged counts an answer of the metrics server's own /healthz, which tells no
// more than that the process answers.
func (m *Metrics) Pinged() { m.slis.checked("ping", "healthz", true) }

// indicators are kubernetes_healthcheck and kubernetes_healthchecks_total.
type indicators struct{ registry componentmetrics.KubeRegistry }

func newIndicators() *indicators {
	i := &indicators{componentmetrics.NewKubeRegistry()}
	slis.Register(i.registry)
	return i
}

// checked notes how a check of that name went, which a probe of that type asked
// for.
func (*indicators) checked(name, probe string, ok bool) {
	status := slis.Error
	if ok {
		status = slis.Success
	}
	_ = slis.ObserveHealthcheck(context.Background(), name, probe, status) // returns nil
}
