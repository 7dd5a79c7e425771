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

// debug adds what profiling brings: what kube-proxy serves then, which is
// net/http/pprof without the command line.
func (c *MetricsConfig) debug(mux *http.ServeMux) {
	mux.Handle("GET /debug/pprof", http.RedirectHandler("/debug/pprof/", http.StatusFound))
	mux.HandleFunc("GET /debug/pprof/", bounded(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/profile", bounded(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", bounded(pprof.Trace))
	list := content("text/plain; charset=utf-8", "/debug/flags/v\n")
	mux.Handle("GET /debug/flags", list)
	mux.Handle("GET /debug/flags/{$}", list)
	mux.HandleFunc("PUT /debug/flags/v", c.putVerbosity)
}

// longestProfile is how long something may be recorded for one request.
const longestProfile = 5 * time.Minute

// bounded refuses what would take longer, because net/http/pprof sets no limit
// and puts off the server's.
func bounded(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		seconds, err := strconv.ParseFloat(r.FormValue("seconds"), 64)
		if tooLong := !(seconds <= longestProfile.Seconds()); err == nil && tooLong { // NaN is
			http.Error(w, fmt.Sprintf("no more than %.0f seconds are recorded", longestProfile.Seconds()), http.StatusBadRequest)
			return
		}
		h(w, r)
	}
}

// putVerbosity takes a new -v from the body.
func (c *MetricsConfig) putVerbosity(w http.ResponseWriter, r *http.Request) {
	const longest = 16
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longest))
	if err != nil {
		http.Error(w, fmt.Sprintf("no more than %d bytes are read", longest), http.StatusBadRequest)
		return
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 31)
	if err != nil {
		http.Error(w, "the body must be a number from 0", http.StatusBadRequest)
		return
	}
	c.SetVerbosity(int(v))
	c.Log.Warn("log level changed over HTTP", "v", v, "by", r.RemoteAddr)
	content("text/plain; charset=utf-8", fmt.Sprintf("-v is now %d\n", v))(w, r)
}
