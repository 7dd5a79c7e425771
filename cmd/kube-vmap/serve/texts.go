package serve

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Text writes a text that may be large.
type Text func(context.Context, io.Writer) error

// serve serves the text while it is written, one at a time of all that share a turn: in
// a big cluster each takes hundreds of megabytes. An error is returned as long as nothing
// is sent; later the connection is closed, so that a part is not taken for the whole.
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

// deadlineWriter sets the write deadline at the first write.
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
