package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
)

// MetricsConfig is what the metrics server's handler serves.
type MetricsConfig struct {
	Log     *slog.Logger
	Version string // of kube-vmap
	// Kubernetes is the release whose ways the proxy has, such as v1.36.3; empty if
	// that is not known.
	Kubernetes string
	Started    time.Time // when the process began

	Metrics, SLIs prometheus.Gatherer
	// Pinged is told of each answer of /healthz; nil means nobody is.
	Pinged func()

	// Object is the configuration in use, of kube-proxy's public type, with kind
	// and apiVersion. Flags are those of the command line.
	Object runtime.Object
	Flags  *pflag.FlagSet
	// Flagz and Statusz serve the pages of these names (feature gates ComponentFlagz
	// and ComponentStatusz).
	Flagz, Statusz bool

	// Status serves what is under /status/, a page for people; nil means nothing is.
	Status http.Handler

	// Profiling serves what is under /debug/. SetVerbosity then does what another
	// -v at the start would have done.
	Profiling    bool
	SetVerbosity func(v int)
}

// scrapes is how many may gather metrics at the same time: a few servers may,
// hundreds would take memory.
const scrapes = 8

// Metrics makes the metrics server's handler. The configuration and the flags are
// written down now, so that nothing can change while they are served.
func Metrics(c MetricsConfig) (http.Handler, error) {
	configz, err := c.configz()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", c.gathered(c.Metrics))
	mux.Handle("GET /metrics/slis", c.gathered(c.SLIs))
	mux.HandleFunc("GET /healthz", c.ping)
	mux.Handle("GET /proxyMode", content("text/plain; charset=utf-8", "nftables"))
	mux.Handle("GET /configz", content("application/json", configz))
	if c.Flagz {
		mux.Handle("GET /flagz", textOnly(c.flagz()))
	}
	if c.Statusz {
		mux.Handle("GET /statusz", textOnly(c.statusz))
	}
	if c.Status != nil {
		mux.Handle("/status/", c.Status)
	}
	if c.Profiling {
		c.debug(mux)
	}
	return noStore(mux), nil
}

// guarded makes sure that nobody takes an answer for anything but what it is,
// or for one of today tomorrow.
func noStore(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}

// content serves the same to everybody.
func content(mediaType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		_, _ = io.WriteString(w, body) // whoever asked does not listen any more
	}
}

// gathered serves metrics. One that cannot be gathered does not keep the others
// from being served.
func (c *MetricsConfig) gathered(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: scrapes,
	})
}

// ping says that the process answers, and nothing of the proxy: that is for the
// health server to say.
func (c *MetricsConfig) ping(w http.ResponseWriter, r *http.Request) {
	if c.Pinged != nil {
		c.Pinged()
	}
	content("text/plain; charset=utf-8", "ok")(w, r)
}

// configz is the configuration under the name of its API group, as kube-proxy
// 1.36 shows it.
func (c *MetricsConfig) configz() (string, error) {
	if c.Object == nil || c.Object.GetObjectKind().GroupVersionKind().Empty() {
		return "", errors.New("configz: a configuration of no kind")
	}
	text, err := json.Marshal(map[string]runtime.Object{c.Object.GetObjectKind().GroupVersionKind().Group: c.Object})
	if err != nil {
		return "", fmt.Errorf("configz: %w", err)
	}
	return string(text), nil
}
