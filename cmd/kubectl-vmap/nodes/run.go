package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"

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

// maxStderr is how much of a command's error output is kept.
const maxStderr = 64 << 10

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
	var stderr bytes.Buffer
	out, errs := idle.writer(stdout), idle.writer(&limited{&stderr, maxStderr})
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: errs})
	cause := context.Cause(ctx)
	idle.stop() // no more is written, also if goroutines of the connection are left
	var exit exec.CodeExitError
	switch {
	case idle.writeErr != nil:
		return fmt.Errorf("write the answer: %w", idle.writeErr)
	case errors.As(err, &exit):
		return &ExitError{exit.Code, stderr.String()}
	case err != nil && cause != nil:
		return cause
	case err != nil && (apierrors.IsForbidden(refusal) || apierrors.IsUnauthorized(refusal) || apierrors.IsNotFound(refusal)):
		return cleanError{c.execError(n, refusal)}
	case err != nil:
		return cleanError{c.execError(n, err)}
	}
	return nil
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

// execError explains why a command did not run, or broke off.
func (c *Cluster) execError(n Node, err error) error {
	const denied = "denied request" // by a ValidatingAdmissionPolicy
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), denied):
		return &sameError{fmt.Errorf("%w: %w", ErrNoPermission, err), n.Pod}
	case apierrors.IsNotFound(err):
		return fmt.Errorf("pod %s is gone: %w", n.Pod, err)
	}
	// Without the port of this host; see sameError.
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Source != nil {
		err = fmt.Errorf("%s %s %s: %w", op.Op, op.Net, op.Addr, op.Err)
	}
	return &sameError{c.apiError("run a command", err), n.Pod}
}

// sameError is an error without what differs among nodes, so that [Failures] has one line
// for all of them.
type sameError struct {
	error
	pod string
}

// requestURL is the API server's request to a kubelet in its errors. The address follows.
var requestURL = regexp.MustCompile(`error sending request: Post "[^"]*": `)

// Error implements error.
func (e *sameError) Error() string {
	return strings.ReplaceAll(requestURL.ReplaceAllString(e.error.Error(), ""), fmt.Sprintf("%q ", e.pod), "")
}

// Unwrap returns the whole error.
func (e *sameError) Unwrap() error { return e.error }

// limited is a writer that drops what is too long.
type limited struct {
	to   *bytes.Buffer
	room int
}

// Write implements [io.Writer].
func (l *limited) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.room)]
	l.room -= len(kept)
	l.to.Write(kept)
	return len(p), nil
}
