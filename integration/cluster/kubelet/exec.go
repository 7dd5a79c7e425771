package kubelet

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// idleTimeout is that of container runtimes.
const idleTimeout = 4 * time.Hour

// serve answers a request of the API server.
func (k *Kubelet) serve(w http.ResponseWriter, r *http.Request) {
	if !k.await(r.Context()) {
		return
	}
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/exec/"), "/")
	k.mu.Lock()
	run, cutAfter := k.containers[r.URL.Path], k.cutAfter
	if run != nil {
		k.calls = append(k.calls, Call{Pod: path[0] + "/" + path[1], Command: r.URL.Query()["command"]})
	}
	k.mu.Unlock()
	if run == nil {
		// In these words of kubelet.
		http.Error(w, fmt.Sprintf("container not found (%q)", path[len(path)-1]), http.StatusInternalServerError)
		return
	}
	streams, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, executor{k, run, cutAfter}, path[1], "", path[2], r.URL.Query()["command"], streams,
		idleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// await waits while the Kubelet hangs. It reports whether the client still does.
func (k *Kubelet) await(ctx context.Context) bool {
	k.mu.Lock()
	hanging := k.hanging
	k.mu.Unlock()
	if hanging == nil {
		return true
	}
	select {
	case <-hanging:
		return k.ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// executor runs the program of one request.
type executor struct {
	kubelet  *Kubelet
	run      Run
	cutAfter int
}

// ExecInContainer implements [remotecommand.Executor].
func (e executor) ExecInContainer(
	ctx context.Context, _, _, _ string, command []string, _ io.Reader, stdout, stderr io.WriteCloser, _ bool,
	_ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	if e.cutAfter >= 0 {
		stdout = &cutter{stdout, ctx, e.cutAfter}
	}
	return e.run(e.kubelet.ctx, command, orDiscard(stdout), orDiscard(stderr))
}

// orDiscard replaces a stream that the client did not ask for.
func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// cutter resets the connection after some bytes.
type cutter struct {
	io.WriteCloser
	ctx  context.Context //nolint:containedctx // it holds the request's connection
	left int
}

func (c *cutter) Write(b []byte) (int, error) {
	if len(b) <= c.left {
		c.left -= len(b)
		return c.WriteCloser.Write(b)
	}
	_, _ = c.WriteCloser.Write(b[:c.left])
	reset(c.ctx)
	return 0, net.ErrClosed
}

// reset ends the connection of a request with a reset.
func reset(ctx context.Context) {
	secure, ok := ctx.Value(connKey{}).(*tls.Conn)
	if !ok {
		return
	}
	if c, ok := secure.NetConn().(*net.TCPConn); ok {
		_ = c.SetLinger(0)
		_ = c.Close() // the client may have closed it
	}
}
