package cluster

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// An optionalResource tracks whether the API server serves a resource that the source
// can do without. A nil one is a resource that every server has.
//
// Not found (404) counts immediately; it is then requested ever less often.
// Forbidden (403) counts only when it lasts, because a server that has just started
// refuses everything until it has loaded its RBAC objects.
type optionalResource struct {
	kind          string
	log           *slog.Logger
	onUnavailable func()

	logged          bool
	refusedSince    time.Time // of refusals in a row; zero if the last request was not refused
	notFoundBackoff wait.Backoff
	nextRequest     time.Time // zero: immediately
}

const (
	forbiddenGrace = 15 * time.Second // how long 403 must last to count
	forbiddenRetry = 30 * time.Second // how long, and up to twice that, to wait after it
)

func newOptionalResource(kind string, log *slog.Logger, onUnavailable func()) *optionalResource {
	m := &optionalResource{kind: kind, log: log, onUnavailable: onUnavailable}
	m.available()
	return m
}

// available records a request that succeeded.
func (m *optionalResource) available() {
	if m == nil {
		return
	}
	m.refusedSince, m.nextRequest = time.Time{}, time.Time{}
	m.notFoundBackoff = wait.Backoff{Duration: 10 * time.Second, Factor: 2, Jitter: 1, Steps: 10, Cap: 10 * time.Minute}
}

// refused records a failed request. It reports whether the error may mean that the
// resource is unavailable.
func (m *optionalResource) refused(err error) bool {
	if m == nil {
		return false
	}
	refused := apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
	switch {
	case !refused:
		m.refusedSince = time.Time{}
	case m.refusedSince.IsZero():
		m.refusedSince = time.Now()
	}
	return refused
}

// isUnavailable reports whether a refusal counts, and calls onUnavailable if so. That
// is logged once: objects that were read before stay known.
func (m *optionalResource) isUnavailable(err error) bool {
	pause := wait.Jitter(forbiddenRetry, 1)
	if apierrors.IsNotFound(err) {
		pause = m.notFoundBackoff.Step()
	} else if time.Since(m.refusedSince) < forbiddenGrace {
		m.nextRequest = time.Time{}
		return false
	}
	m.nextRequest = time.Now().Add(pause)
	if !m.logged {
		m.logged = true
		m.log.Info("API resource unavailable, continuing without it", "kind", m.kind, "err", err)
	}
	m.onUnavailable()
	return true
}

// wait waits until the next request is due.
func (m *optionalResource) wait(ctx context.Context) error {
	if m != nil && !m.nextRequest.IsZero() {
		waitFor(ctx, nil, time.After(time.Until(m.nextRequest)))
	}
	return ctx.Err()
}
