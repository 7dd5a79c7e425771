package cluster

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kube-vmap/cmd/inspect/nodes"
)

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
