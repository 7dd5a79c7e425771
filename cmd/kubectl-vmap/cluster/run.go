package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/model"

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

// maxTimeouts times the time-out is how long an answer may take: a node could send a byte
// from time to time for ever.
const maxTimeouts = 30

// Run runs kube-vmap with arguments on a node, and returns what it prints to stdout, also if
// there is an error. A connection that breaks may look like the end of the answer (API
// servers of 1.36 report success), so an answer must show that it is whole. The error is an
// [*nodes.ExitError] if it ends with another code than 0, a [*nodes.MissingError] without a running
// kube-vmap, and a [*TimeoutError] if it is silent or does not end.
func (c *Cluster) Run(ctx context.Context, n nodes.Node, args ...string) ([]byte, error) {
	if n.Missing {
		return nil, &nodes.MissingError{Why: n.Why}
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var refusal error // of a WebSocket; an error of SPDY does not keep the reason
	executor, err := c.executor(n, args, func(cause error) { refusal = cause })
	if err != nil {
		return nil, err
	}
	timeout := c.config.Timeout
	longest := maxTimeouts * min(timeout, math.MaxInt64/maxTimeouts)
	ctx, end := context.WithTimeoutCause(klog.NewContext(ctx, logr.Discard()), longest, &TimeoutError{longest, true})
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(timeout, func() { cancel(&TimeoutError{After: timeout}) })
	defer timer.Stop()
	written, full := func() { timer.Reset(timeout) }, func() { cancel(errTooLong) }
	stdout, stderr := &buffer{written: written, full: full}, &buffer{written: written, full: full}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr})
	text, message := stdout.content(), stderr.content()
	var exit exec.CodeExitError
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTooLong): // the connection may have ended without an error
		return text, cause
	case err == nil:
		return text, nil
	case errors.As(err, &exit):
		return text, &nodes.ExitError{Code: exit.Code, Stderr: string(message)}
	case cause != nil:
		return text, cause
	case apierrors.IsForbidden(refusal) || apierrors.IsUnauthorized(refusal) || apierrors.IsNotFound(refusal):
		return text, execError(n, refusal)
	}
	return text, execError(n, err)
}

var errTooLong = fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)

// A buffer holds an answer of limited length: a node might send anything. Goroutines of the
// connection may write even after it has ended. They discard what follows an error of Write,
// so full ends the command.
type buffer struct {
	written, full func()

	mu   sync.Mutex
	text []byte
}

// Write implements [io.Writer].
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.text)+len(p) > maxAnswer {
		b.full()
		return 0, io.ErrShortBuffer
	}
	b.text = append(b.text, p...)
	b.written()
	return len(p), nil
}

func (b *buffer) content() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text
}

// executor returns what runs a command: by WebSocket or, if that is not possible, SPDY. It
// calls refused with the cause if a server refuses a WebSocket.
func (c *Cluster) executor(n nodes.Node, args []string, refused func(error)) (remotecommand.Executor, error) {
	command := append([]string{program}, args...)
	if name := model.ProxyName(); name != "" {
		command = append(command, "--service-proxy-name="+name)
	}
	request := c.core.RESTClient().Post().Resource("pods").Namespace(n.Namespace).Name(n.Pod).SubResource("exec")
	request.VersionedParams(&corev1.PodExecOptions{
		Container: container, Command: command, Stdout: true, Stderr: true,
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
