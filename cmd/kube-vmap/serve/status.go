package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/sync/follow/listen"
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
		Handler: noStore(rootOnly(mux)), Log: c.Log,
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

// listenUnix listens on a Unix socket, named as in package net. A stale socket file is
// replaced; if a process answers on it, the error is EADDRINUSE. Only the owner may connect
// to a path, and the file is removed when the listener is closed.
func listenUnix(ctx context.Context, network, address string) (net.Listener, error) {
	var c net.ListenConfig
	if strings.HasPrefix(address, "@") {
		return c.Listen(ctx, network, address)
	}
	if err := clearStale(ctx, address); err != nil {
		return nil, err
	}
	c.Control = func(_, _ string, conn syscall.RawConn) error {
		// The file gets the mode of the socket (unix_bind_bsd).
		var failed error
		err := conn.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), ownerOnly) })
		return errors.Join(err, failed)
	}
	return c.Listen(ctx, network, address)
}

const ownerOnly = 0o600

// clearStale removes the socket of a process that has ended. Any other file at the path is
// an error.
func clearStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("%s: another process listens on it: %w", path, syscall.EADDRINUSE), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err // the process may only be busy
	}
	return os.Remove(path)
}

// rootOnly answers root only, by the kernel's credentials of the peer (SO_PEERCRED). Only
// root may read the rules themselves, too.
func rootOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RemoteAddr != rootPeer.String() {
			http.Error(w, "only root (uid 0) may ask; this is "+r.RemoteAddr, http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// A peer is the user of the process at the other end of a Unix socket. It is a net.Addr:
// HTTP requests have it as their remote address.
type peer string

const rootPeer, unknownPeer peer = "uid 0", "an unknown user"

// Network implements [net.Addr].
func (peer) Network() string { return "unix" }

// String implements [net.Addr].
func (p peer) String() string { return string(p) }

// maxOthers is how many connections of other users than root a Unix socket may have, to
// refuse them. One more closes the oldest.
const maxOthers = 8

// byUser is a listener whose connections have a [peer] as their remote address. It limits the ones of
// root and of other users separately, so other users cannot displace root.
type byUser struct {
	net.Listener
	root, others *listen.ConnLimit
}

// Accept implements [net.Listener].
func (l byUser) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	limit, p := l.others, peerOf(conn)
	if p == rootPeer {
		limit = l.root
	}
	return limit.Admit(peerConn{conn, p}), nil
}

func peerOf(conn net.Conn) peer {
	p := unknownPeer
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return p
	}
	_ = raw.Control(func(fd uintptr) { // after an error, the user is not known
		if of, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			p = peer(fmt.Sprintf("uid %d", of.Uid))
		}
	})
	return p
}

// peerConn is a connection with its peer as remote address.
type peerConn struct {
	net.Conn
	peer peer
}

// RemoteAddr implements [net.Conn].
func (c peerConn) RemoteAddr() net.Addr { return c.peer }
