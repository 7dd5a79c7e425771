package nodes

import (
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ExitError is the error of a command that ended with another exit code than 0.
type ExitError struct {
	Code   int
	Stderr string // what it printed there
}

// Error implements error.
func (e *ExitError) Error() string {
	if text := strings.TrimPrefix(strings.TrimSpace(e.Stderr), "kube-vmap: "); text != "" {
		return cleanLine(text)
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// unknown reports whether kube-vmap does not know the command or a flag of it.
func (e *ExitError) unknown() bool {
	return strings.Contains(e.Stderr, "unknown command") || strings.Contains(e.Stderr, "unknown flag") ||
		strings.Contains(e.Stderr, "unknown shorthand flag")
}

// MissingError is the error of a node without a running kube-vmap.
type MissingError struct{ Why string }

// Error implements error.
func (e *MissingError) Error() string { return e.Why }

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

// VersionError is the error of a node whose kube-vmap is too old for a command.
type VersionError struct {
	Version string // empty if not known
	Command string
}

// Error implements error.
func (e *VersionError) Error() string {
	runs := "runs another version of kube-vmap"
	if e.Version != "" {
		runs = "runs kube-vmap " + e.Version
	}
	return fmt.Sprintf("%s, which has no %q", runs, "kube-vmap "+e.Command)
}

// ErrNoPermission is wrapped by errors about a missing permission.
var ErrNoPermission = errors.New("no permission")

// errNotInstalled is wrapped by the error of a cluster without a pod of kube-vmap.
var errNotInstalled = errors.New("no kube-vmap found")

func (c *Cluster) noPods() error {
	return fmt.Errorf("%w: namespace %s has no pods with the label %s; --proxy-namespace names another namespace",
		errNotInstalled, c.config.Namespace, selector)
}

// apiError explains an error of the API server.
func (c *Cluster) apiError(what string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w to %s; the roles in deploy/kubectl give it: %w", ErrNoPermission, what, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server does not accept these credentials: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
