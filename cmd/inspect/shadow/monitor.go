package shadow

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A Monitor serves the results of a [Shadow] that runs for days: as metrics, log lines when a
// difference begins or ends, and /readyz.
type Monitor struct {
	log      *slog.Logger
	registry *prometheus.Registry
	ready    atomic.Bool
	known    map[string]Difference // by key, those that count
	lastErr  string

	differences, intended                        *prometheus.GaugeVec
	services, frontends, seconds, dormant, ended prometheus.Gauge
	failures                                     prometheus.Counter
}

// NewMonitor returns a monitor before the first round.
func NewMonitor(log *slog.Logger) *Monitor {
	m := &Monitor{log: log, registry: prometheus.NewRegistry(), known: map[string]Difference{}}
	f := promauto.With(m.registry)
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: "kubevmap_shadow_" + name, Help: help})
	}
	m.differences = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubevmap_shadow_differences",
		Help: "Differences from the rules of kube-proxy that are not intended, by what differs.",
	}, []string{"kind"})
	m.intended = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubevmap_shadow_intended_differences", Help: "Intended differences from the rules of kube-proxy, by reason.",
	}, []string{"reason"})
	m.services = gauge("service_ports", "Ports of Services that were compared, in each family.")
	m.frontends = gauge("frontends", "Addresses and ports that were compared.")
	m.seconds = gauge("round_seconds", "Duration of the last round.")
	m.ended = gauge("last_round_timestamp_seconds", "When the last successful round ended.")
	m.dormant = gauge("dormant_families", "Families in which kube-proxy's rules are dormant.")
	m.failures = f.NewCounter(prometheus.CounterOpts{
		Name: "kubevmap_shadow_failed_rounds_total", Help: "Rounds in which nothing could be compared.",
	})
	m.resetDifferences()
	return m
}

// OnRound records the result of a round.
func (m *Monitor) OnRound(r *Report, err error) {
	if err != nil {
		m.failures.Inc()
		if text := err.Error(); text != m.lastErr {
			m.lastErr = text
			m.log.Error("cannot compare with kube-proxy", "err", err)
		}
		return
	}
	m.lastErr = ""
	m.resetDifferences()
	now := map[string]Difference{}
	for _, d := range r.Differences {
		if d.Intended != "" {
			m.intended.WithLabelValues(d.reason).Inc()
			continue
		}
		m.differences.WithLabelValues(d.Kind).Inc()
		now[d.key()] = d
	}
	if m.ready.CompareAndSwap(false, true) {
		m.log.Info("first comparison with kube-proxy", "services", r.Services, "frontends", r.Frontends, "packets", r.Packets,
			"differences", len(now)+r.More, "took", r.Took)
	}
	for gauge, n := range map[prometheus.Gauge]float64{
		m.services: float64(r.Services), m.frontends: float64(r.Frontends), m.seconds: r.Took.Seconds(),
		m.dormant: float64(len(r.Dormant)), m.ended: float64(time.Now().Unix()),
	} {
		gauge.Set(n)
	}
	m.logChanges(now, r)
	m.known = now
}

func (m *Monitor) resetDifferences() {
	m.differences.Reset()
	m.intended.Reset()
	for _, kind := range Kinds {
		m.differences.WithLabelValues(kind)
	}
}

const maxLines = 20

func (m *Monitor) logChanges(now map[string]Difference, r *Report) {
	begun, gone := minus(now, m.known), minus(m.known, now)
	for _, d := range begun[:min(len(begun), maxLines)] {
		m.log.Warn("differs from kube-proxy", "service", d.Service, "address", d.Frontend, "family", d.Family, "kind", d.Kind,
			"client", strings.Join(d.Clients, ","), "ours", d.Ours, "theirs", d.Theirs)
	}
	for _, d := range gone[:min(len(gone), maxLines)] {
		m.log.Info("no longer differs from kube-proxy", "service", d.Service, "address", d.Frontend, "family", d.Family,
			"kind", d.Kind)
	}
	if len(begun)+len(gone) > 0 || r.More > 0 {
		m.log.Warn("compared with kube-proxy", "services", r.Services, "differences", len(now)+r.More,
			"added", len(begun), "deleted", len(gone), "took", r.Took)
	}
}

// minus returns the differences that are in a and not in b, by Service.
func minus(a, b map[string]Difference) (out []Difference) {
	for key, d := range a {
		if _, in := b[key]; !in {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Difference) int { return strings.Compare(a.key(), b.key()) })
	return out
}

// Handler serves /metrics, /readyz and /livez.
func (m *Monitor) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }
	mux.HandleFunc("GET /livez", ok)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if !m.ready.Load() {
			http.Error(w, "nothing was compared yet", http.StatusServiceUnavailable)
			return
		}
		ok(w, r)
	})
	return mux
}
