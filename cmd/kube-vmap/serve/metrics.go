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

// MetricsConfig configures the handler of the metrics server.
type MetricsConfig struct {
	Log     *slog.Logger
	Version string // of kube-vmap
	// Kubernetes is the release that the proxy emulates, such as v1.37.2; empty if not known.
	Kubernetes string
	Started    time.Time // when the process began

	Metrics, SLIs prometheus.Gatherer
	// Pinged is called for each request of /healthz; may be nil.
	Pinged func()

	// Object is the configuration in use, with kind and apiVersion. Flags are those of
	// the command line.
	Object runtime.Object
	Flags  *pflag.FlagSet
	// Flagz and Statusz enable the pages of these names (feature gates ComponentFlagz and
	// ComponentStatusz).
	Flagz, Statusz bool

	// Status serves the status page under /status/; nil disables it.
	Status http.Handler

	// Profiling enables /debug/, where SetVerbosity changes -v.
	Profiling    bool
	SetVerbosity func(v int)
}

// maxScrapes is how many clients may gather metrics at the same time, which takes memory.
const maxScrapes = 8

// Metrics returns the handler of the metrics server. The configuration and the flags are
// encoded now, so that they cannot change while they are served.
func Metrics(c MetricsConfig) (http.Handler, error) {
	configz, err := c.configz()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", c.gather(c.Metrics))
	mux.Handle("GET /metrics/slis", c.gather(c.SLIs))
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

// noStore adds headers against caching and content sniffing.
func noStore(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r)
	})
}

// content serves a constant.
func content(mediaType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		_, _ = io.WriteString(w, body) // fails only if the client is gone
	}
}

// gather serves metrics. After an error of one metric, the others are served.
func (c *MetricsConfig) gather(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
	})
}

// ping reports that the process is alive. The health of the proxy is on the health server.
func (c *MetricsConfig) ping(w http.ResponseWriter, r *http.Request) {
	if c.Pinged != nil {
		c.Pinged()
	}
	content("text/plain; charset=utf-8", "ok")(w, r)
}

// configz returns the configuration by its API group, as kube-proxy 1.37 does.
func (c *MetricsConfig) configz() (string, error) {
	if c.Object == nil || c.Object.GetObjectKind().GroupVersionKind().Empty() {
		return "", errors.New("configz: the configuration has no kind")
	}
	text, err := json.Marshal(map[string]runtime.Object{c.Object.GetObjectKind().GroupVersionKind().Group: c.Object})
	if err != nil {
		return "", fmt.Errorf("configz: %w", err)
	}
	return string(text), nil
}
