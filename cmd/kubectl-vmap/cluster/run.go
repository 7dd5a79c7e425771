package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"regexp"
	"strings"
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

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/cmd/inspect/schema"
	"kube-vmap/model"
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

// TimeoutError is the error of a node that was silent for too long, or whose answer does
// not end.
type TimeoutError struct {
	After   time.Duration
	Endless bool // it was not silent
}

// Error implements error.
func (e *TimeoutError) Error() string {
	if e.Endless {
		return fmt.Sprintf("the answer does not end within %s (%d times --node-timeout)", e.After, maxTimeouts)
	}
	return fmt.Sprintf("no answer within %s (--node-timeout)", e.After)
}

func apiError(what string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w to %s; the roles in deploy/kubectl give it: %w", nodes.ErrNoPermission, what, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server does not accept these credentials: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func execError(n nodes.Node, err error) error {
	const denied = "denied request" // by a ValidatingAdmissionPolicy
	op := (*net.OpError)(nil)
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), denied):
		err = fmt.Errorf("%w: %w", nodes.ErrNoPermission, err)
	case apierrors.IsNotFound(err):
		err = fmt.Errorf("pod %s is gone: %w", n.Pod, err)
	case errors.As(err, &op) && op.Source != nil: // without the port of this host
		err = apiError("run a command", fmt.Errorf("%s %s %s: %w", op.Op, op.Net, op.Addr, op.Err))
	default:
		err = apiError("run a command", err)
	}
	return nodeError{err, n.Pod}
}

// A nodeError is an error whose text a node may have written. It has nothing that differs
// among nodes, so [nodes.Failures] has one line for all of them.
type nodeError struct {
	error
	pod string
}

// requestURL is the API server's request to a kubelet in its errors. The address follows.
var requestURL = regexp.MustCompile(`error sending request: Post "[^"]*": `)

// Error implements error.
func (e nodeError) Error() string {
	text := requestURL.ReplaceAllString(e.error.Error(), "")
	return nodes.Message(strings.ReplaceAll(text, fmt.Sprintf("%q ", e.pod), ""))
}

// Unwrap returns the whole error.
func (e nodeError) Unwrap() error { return e.error }

// maxAnswer is the length of an answer that is held in memory, in bytes.
const maxAnswer = 256 << 20

// Decoded, an empty object may take a hundred times as much memory as its two bytes. Objects
// of kube-vmap have this many bytes, on average; short answers may have other ones.
const (
	meanObject = 32
	minObjects = 1 << 16
)

// Document returns the status of a node. The node may be silent for as long as it observes
// in addition.
func (c *Cluster) Document(ctx context.Context, n nodes.Node, q nodestatus.Query) (*nodestatus.Document, error) {
	args := append([]string{"status", "-o", "json"}, q.Args()...)
	d := &nodestatus.Document{}
	if err := c.Patient(q.Observe).JSON(ctx, n, nodestatus.Schema, d, args...); err != nil {
		return nil, err
	}
	return d, nil
}

// JSON runs a command that prints JSON of at most a known schema, and decodes it; see
// [schema.Decode]. An exit code is no error if there is an answer: it may be one, too. A
// command that the node's version does not have is a [*nodes.VersionError].
func (c *Cluster) JSON(ctx context.Context, n nodes.Node, known int, into any, args ...string) error {
	text, err := c.Run(ctx, n, args...)
	var exit *nodes.ExitError
	switch {
	case errors.As(err, &exit) && exit.Unknown():
		version, _ := c.Version(ctx, n) // empty if that fails, too
		return &nodes.VersionError{Version: version, Command: strings.Join(args, " ")}
	case err != nil && (exit == nil || len(text) == 0):
		return err
	}
	if objects := bytes.Count(text, []byte("{")); objects > minObjects && objects > len(text)/meanObject {
		return fmt.Errorf("not a kube-vmap response: it has %d objects in %d bytes", objects, len(text))
	}
	if err := schema.Decode(cleanJSON(text), known, into); err != nil {
		return nodeError{err, n.Pod}
	}
	return nil
}

// Version returns the version of kube-vmap on a node.
func (c *Cluster) Version(ctx context.Context, n nodes.Node) (string, error) {
	text, err := c.Run(ctx, n, "version")
	if err != nil {
		return "", err
	}
	version, ok := strings.CutPrefix(string(text), "kube-vmap ")
	version, whole := strings.CutSuffix(version, "\n")
	if !ok || !whole || strings.Contains(version, "\n") {
		return "", fmt.Errorf("%.100q is not the version of kube-vmap", text)
	}
	return output.CleanLine(version), nil
}

var jsonEscape = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|.)`)

// cleanJSON returns JSON whose strings have no control characters, escaped or not.
func cleanJSON(text []byte) []byte {
	text = jsonEscape.ReplaceAllFunc(text, func(escape []byte) []byte {
		var s string
		if json.Unmarshal(append(append([]byte{'"'}, escape...), '"'), &s) != nil || s == output.CleanLine(s) {
			return escape
		}
		return []byte(output.CleanLine(s))
	})
	return []byte(output.CleanText(string(text)))
}
