package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

// program is kube-vmap in its image.
const program = "/kube-vmap"

// Run runs kube-vmap with arguments on a node, and writes what it prints to stdout, also if
// an error follows. A connection that breaks may look like the end of the answer (API
// servers of 1.36 report success), so an answer must show that it is whole. The error is an
// [*ExitError] if it ends with another code than 0, a [*MissingError] without a running
// kube-vmap, and a [*TimeoutError] if it is silent or does not end.
func (c *Cluster) Run(ctx context.Context, n Node, stdout io.Writer, args ...string) error {
	if n.Missing {
		return &MissingError{n.Why}
	}
	var refusal error // of a WebSocket; an error of SPDY does not keep the reason
	executor, err := c.executor(n, args, func(cause error) { refusal = cause })
	if err != nil {
		return err
	}
	ctx, idle := newIdle(klog.NewContext(ctx, logr.Discard()), c.config.Timeout)
	defer idle.stop()
	var stderr Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{
		Stdout: idleWriter{idle, stdout}, Stderr: idleWriter{idle, &stderr},
	})
	cause := context.Cause(ctx)
	idle.stop() // no more is written, also if goroutines of the connection are left
	var exit exec.CodeExitError
	switch {
	case idle.writeErr != nil:
		return fmt.Errorf("write the answer: %w", idle.writeErr)
	case err == nil:
		return nil
	case errors.As(err, &exit):
		return &ExitError{exit.Code, stderr.String()}
	case cause != nil:
		return cause
	case apierrors.IsForbidden(refusal) || apierrors.IsUnauthorized(refusal) || apierrors.IsNotFound(refusal):
		return execError(n, refusal)
	}
	return execError(n, err)
}

// maxTimeouts times the time-out is how long an answer may take: a node could send a byte
// from time to time for ever.
const maxTimeouts = 30

// idle cancels a context if nothing is written for too long, or if writing does not end.
// After stop, nothing is written.
type idle struct {
	timeout    time.Duration
	cancel     context.CancelCauseFunc
	timer, end *time.Timer

	mu       sync.Mutex // guards what follows, and the writers
	stopped  bool
	writeErr error
}

func newIdle(ctx context.Context, timeout time.Duration) (context.Context, *idle) {
	ctx, cancel := context.WithCancelCause(ctx)
	longest := maxTimeouts * min(timeout, math.MaxInt64/maxTimeouts)
	return ctx, &idle{
		timeout: timeout, cancel: cancel,
		timer: time.AfterFunc(timeout, func() { cancel(&TimeoutError{After: timeout}) }),
		end:   time.AfterFunc(longest, func() { cancel(&TimeoutError{longest, true}) }),
	}
}

// stop ends writing, and releases the context.
func (i *idle) stop() {
	i.timer.Stop()
	i.end.Stop()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
	i.cancel(nil)
}

// An idleWriter is a writer whose writes restart the time-out.
type idleWriter struct {
	*idle
	to io.Writer
}

// Write implements [io.Writer].
func (w idleWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return 0, io.ErrClosedPipe
	}
	w.timer.Stop() // how long the reader takes does not count
	n, err := w.to.Write(p)
	if err != nil {
		w.writeErr = err
		w.cancel(err)
		return n, err
	}
	w.timer.Reset(w.timeout)
	return n, nil
}

// executor returns what runs a command: by WebSocket or, if that is not possible, SPDY. It
// calls refused with the cause if a server refuses a WebSocket.
func (c *Cluster) executor(n Node, args []string, refused func(error)) (remotecommand.Executor, error) {
	request := c.core.RESTClient().Post().Resource("pods").Namespace(n.Namespace).Name(n.Pod).SubResource("exec")
	request.VersionedParams(&corev1.PodExecOptions{
		Container: container, Command: append([]string{program}, args...), Stdout: true, Stderr: true,
	}, scheme.ParameterCodec)
	socket, err := remotecommand.NewWebSocketExecutor(c.config.REST, http.MethodGet, request.URL().String())
	if err != nil {
		return nil, fmt.Errorf("configure the connection: %w", err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config.REST, http.MethodPost, request.URL())
	if err != nil {
		return nil, fmt.Errorf("configure the connection: %w", err)
	}
	return remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		if upgrade := (*httpstream.UpgradeFailureError)(nil); errors.As(err, &upgrade) {
			refused(upgrade.Cause)
		}
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}
