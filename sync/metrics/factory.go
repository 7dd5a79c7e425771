package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// A factory creates and registers metrics. It panics if a name exists.
type factory struct {
	promauto.Factory
	prefix string
	native bool // histograms are native ones as well
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return f.NewHistogram(f.histogramOpts(name, help, buckets))
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(f.histogramOpts(name, help, buckets), labels)
}

// histogramOpts adds to the buckets of a histogram those of a native one, if enabled, of
// kube-proxy's resolution and number (component-base/metrics/internal/nativehistograms.go).
func (f factory) histogramOpts(name, help string, buckets []float64) prometheus.HistogramOpts {
	o := prometheus.HistogramOpts{Name: f.prefix + name, Help: help, Buckets: buckets}
	if f.native {
		o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber = 1.1, 160
	}
	return o
}

func (f factory) counter(name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: f.prefix + name, Help: help})
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: f.prefix + name, Help: help}, labels)
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	return f.NewGauge(prometheus.GaugeOpts{Name: f.prefix + name, Help: help})
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts{Name: f.prefix + name, Help: help}, labels)
}
