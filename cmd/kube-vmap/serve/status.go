package serve

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
)

// StatusConfig is what the status server serves.
type StatusConfig struct {
	// Socket is the Unix socket, as package net names it; empty serves nothing.
	Socket string
	Answer nodestatus.Source
	// Texts are served at their paths, one at a time.
	Texts   map[string]Text
	Metrics prometheus.Gatherer
	Log     *slog.Logger
}

// maxStatus is how many connections of root the status socket may have. One more closes the oldest.
const maxStatus = 32

// NewStatus returns the server of the status socket, which answers root alone. An error
// is only a warning, since no traffic depends on it.
func NewStatus(c StatusConfig) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET "+client.Path, StatusJSON(c.Answer))
	turn := make(chan struct{}, 1)
	for path, text := range c.Texts {
		mux.HandleFunc("GET "+path, text.serve(turn))
	}
	mux.Handle("GET "+client.PathMetrics, promhttp.HandlerFor(c.Metrics,
		promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	return New(Config{
		Name: "status", Address: c.Socket, Network: "unix", Minor: true, MaxConnections: maxStatus,
		Handler: noStore(rootOnly(client.AckRequests(mux))), Log: c.Log,
	})
}

// writeTimeout is how long a client may take for an answer, once that begins. The
// server's own timeout counts from the request on, including the time to find the answer.
const writeTimeout = 30 * time.Second

// StatusJSON serves status documents.
func StatusJSON(answer nodestatus.Source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		doc, err := answer(r.Context(), nodestatus.ParseQuery(r.URL.Query()))
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // fails only without a connection
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = doc.Write(w) // fails only if the client is gone
	})
}

// Text writes a text that may be large.
type Text func(context.Context, io.Writer) error

// serve serves the text while it is written, one at a time of all that share a turn: in
// a big cluster each takes hundreds of megabytes. An error is returned as long as nothing
// is sent; later the connection is closed, so a part is not taken for the whole.
func (t Text) serve(turn chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		out := &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w)}
		_ = out.control.SetWriteDeadline(time.Time{}) // the server's deadline would count the wait
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-r.Context().Done():
			http.Error(w, "wait for other requests: "+r.Context().Err().Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		switch err := t(r.Context(), out); {
		case err != nil && out.begun:
			panic(http.ErrAbortHandler) // closes the connection without a log line
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

// Write implements [io.Writer].
func (w *deadlineWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.begun = true
		_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	return w.ResponseWriter.Write(p)
}
