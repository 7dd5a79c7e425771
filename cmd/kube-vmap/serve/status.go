package serve

import (
	"log/slog"
	"net/http"
	"time"

	"kube-vmap/cmd/inspect/status"
)

// StatusConfig is what a status server is told once.
type StatusConfig struct {
	// Socket is the Unix socket, by the names of package net; nothing is served
	// without one.
	Socket string
	Answer status.Answer
	Log    *slog.Logger
}

// mostStatus is how many of root may be connected to the status socket. One more
// closes the oldest.
const mostStatus = 32

// NewStatus makes the server of the status socket, which answers none but root and shows
// at once that it has heard them, and the mux of what it serves, for more to be added before it runs. What cannot be
// served is a warning, and tried again: no traffic depends on it.
func NewStatus(c StatusConfig) (*Server, *http.ServeMux) {
	mux := http.NewServeMux()
	mux.Handle("GET "+status.Path, StatusJSON(c.Answer))
	s := New(Config{
		Name: "status", Address: c.Socket, Network: "unix", Minor: true, Most: mostStatus,
		Handler: guarded(rootAlone(status.ShowLife(mux))), Log: c.Log,
	})
	return s, mux
}

// takeTime is how long a client may take for a document, once there is one. The server's
// own time is from the question on, and would count what it took to find the answer.
const takeTime = 30 * time.Second

// StatusJSON serves the documents that are asked for.
func StatusJSON(answer status.Answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		doc, err := answer(r.Context(), status.QueryOf(r.URL.Query()))
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(takeTime)) // one that is no connection has none
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = doc.Write(w) // whoever asked does not listen any more
	})
}
