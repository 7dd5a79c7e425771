package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	goruntime "runtime"
	"strconv"
	"strings"
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
	// Pinged is called for each request of /healthz.
	Pinged func()

	// Object is the configuration in use, with kind and apiVersion. Flags are from
	// the command line.
	Object runtime.Object
	Flags  *pflag.FlagSet
	// Flagz and Statusz enable the pages of these names (feature gates ComponentFlagz and
	// ComponentStatusz).
	Flagz, Statusz bool

	// Profiling enables /debug/, where SetVerbosity changes -v.
	Profiling    bool
	SetVerbosity func(v int)
}

// maxScrapes is how many clients may gather metrics at the same time, which takes memory.
const maxScrapes = 8

// Metrics returns the handler of the metrics server. The configuration and the flags are
// encoded now, so they cannot change while they are served.
func Metrics(c MetricsConfig) (http.Handler, error) {
	configz, err := c.configz()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", c.gather(c.Metrics))
	mux.Handle("GET /metrics/slis", c.gather(c.SLIs))
	mux.HandleFunc("GET /healthz", c.ping)
	mux.Handle("GET /proxyMode", content(plain, "nftables"))
	mux.Handle("GET /configz", content("application/json", configz))
	if c.Flagz {
		page := header("flagz")
		c.Flags.VisitAll(func(f *pflag.Flag) { page += f.Name + "=" + f.Value.String() + "\n" })
		mux.Handle("GET /flagz", content(plain, page))
	}
	if c.Statusz {
		mux.HandleFunc("GET /statusz", func(w http.ResponseWriter, r *http.Request) { content(plain, c.statusz())(w, r) })
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

const plain = "text/plain; charset=utf-8"

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
	c.Pinged()
	content(plain, "ok")(w, r)
}

// configz returns the configuration by its API group, as kube-proxy 1.37 does.
func (c *MetricsConfig) configz() (string, error) {
	text, err := json.Marshal(map[string]runtime.Object{c.Object.GetObjectKind().GroupVersionKind().Group: c.Object})
	if err != nil {
		return "", fmt.Errorf("configz: %w", err)
	}
	return string(text), nil
}

// debug adds kube-proxy's paths for profiling: net/http/pprof without the command line.
func (c *MetricsConfig) debug(mux *http.ServeMux) {
	mux.Handle("GET /debug/pprof", http.RedirectHandler("/debug/pprof/", http.StatusFound))
	mux.HandleFunc("GET /debug/pprof/", limitSeconds(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/profile", limitSeconds(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", limitSeconds(pprof.Trace))
	list := content(plain, "/debug/flags/v\n")
	mux.Handle("GET /debug/flags", list)
	mux.Handle("GET /debug/flags/{$}", list)
	mux.HandleFunc("PUT /debug/flags/v", c.putVerbosity)
}

const maxProfile = 5 * time.Minute

// limitSeconds refuses longer durations, since net/http/pprof has no limit and extends the
// server's timeout.
func limitSeconds(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.NoBody // of which FormValue would keep 32 MB
		seconds, err := strconv.ParseFloat(r.FormValue("seconds"), 64)
		if tooLong := !(seconds <= maxProfile.Seconds()); err == nil && tooLong { // NaN is
			http.Error(w, fmt.Sprintf("at most %.0f seconds can be recorded", maxProfile.Seconds()), http.StatusBadRequest)
			return
		}
		h(w, r)
	}
}

func (c *MetricsConfig) putVerbosity(w http.ResponseWriter, r *http.Request) {
	const maxBody = 16
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, fmt.Sprintf("the body may have at most %d bytes", maxBody), http.StatusBadRequest)
		return
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 31)
	if err != nil {
		http.Error(w, "the body must be a number from 0", http.StatusBadRequest)
		return
	}
	c.SetVerbosity(int(v))
	c.Log.Warn("log level changed over HTTP", "verbosity", v, "client", r.RemoteAddr)
	content(plain, fmt.Sprintf("-v is now %d\n", v))(w, r)
}

// The pages of KEP-4827 and KEP-4828, as plain text, whatever a client accepts. The shared code of
// Kubernetes for them is in k8s.io/apiserver, which is larger than the rest of this program.

func header(page string) string {
	return "\nkube-vmap " + page + "\n" +
		"Warning: This endpoint is not meant to be machine parseable, " +
		"has no formatting compatibility guarantees and is for debugging purposes only.\n"
}

func (c *MetricsConfig) statusz() string {
	up := max(0, time.Since(c.Started))
	page := header("statusz") + fmt.Sprintf(
		"\nStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\n",
		c.Started.UTC().Format(time.UnixDate), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60,
		goruntime.Version(), c.Version)
	if emulated := strings.Split(strings.TrimPrefix(c.Kubernetes, "v"), "."); len(emulated) > 1 {
		page += "Emulation version: " + emulated[0] + "." + emulated[1] + "\n"
	}
	return page + "Paths: /configz /flagz /healthz /metrics /proxyMode\n"
}
