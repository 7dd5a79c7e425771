package serve

import (
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"
)

// debug adds kube-proxy's paths for profiling: net/http/pprof without the command line.
func (c *MetricsConfig) debug(mux *http.ServeMux) {
	mux.Handle("GET /debug/pprof", http.RedirectHandler("/debug/pprof/", http.StatusFound))
	mux.HandleFunc("GET /debug/pprof/", limitSeconds(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/profile", limitSeconds(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", limitSeconds(pprof.Trace))
	list := content("text/plain; charset=utf-8", "/debug/flags/v\n")
	mux.Handle("GET /debug/flags", list)
	mux.Handle("GET /debug/flags/{$}", list)
	mux.HandleFunc("PUT /debug/flags/v", c.putVerbosity)
}

const maxProfile = 5 * time.Minute

// limitSeconds refuses longer durations, since net/http/pprof has no limit and extends the
// server's timeout.
func limitSeconds(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
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
	content("text/plain; charset=utf-8", fmt.Sprintf("-v is now %d\n", v))(w, r)
}
