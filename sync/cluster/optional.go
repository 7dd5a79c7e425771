package cluster

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// optional is about objects that a server may not have or not show. Nil is about
// objects that must be there.
//
// That a server does not have them (404) is believed at once, and it is then asked
// ever more rarely. That it does not show them (403) is believed only when it
// lasts: a server that has only just started refuses everything until it has read
// who may do what.
type optionalResource struct {
	kind string // of the objects
	log  *slog.Logger
	// event is called when they are missing.
	onUnavailable func()

	logged       bool
	refusedSince time.Time // the first refusal of those in a row; zero if there is none
	// notFoundBackoff is when to ask again what the server does not have, and next when that
	// is; zero is at once.
	notFoundBackoff wait.Backoff
	nextRequest     time.Time
}

// forbiddenGrace is how long a refusal lasts that is meant, and refusedPause after
// how long, and up to twice that, it is then asked again.
const (
	forbiddenGrace = 15 * time.Second
	forbiddenRetry = 30 * time.Second
)

func newOptionalResource(kind string, log *slog.Logger, tell func()) *optionalResource {
	m := &optionalResource{kind: kind, log: log, onUnavailable: tell}
	m.available()
	return m
}

// available notes that they are there.
func (m *optionalResource) available() {
	if m == nil {
		return
	}
	m.refusedSince, m.nextRequest = time.Time{}, time.Time{}
	m.notFoundBackoff = wait.Backoff{Duration: 10 * time.Second, Factor: 2, Jitter: 1, Steps: 10, Cap: 10 * time.Minute}
}

// refused reports whether err may say that they are missing, and notes it.
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

// isUnavailable reports whether a refusal is meant, and if so tells that they are
// missing. The log says so once, because to a process that runs, what it knows is
// left anyway.
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
		m.log.Info("going on without what the API server does not have or not show", "kind", m.kind, "err", err)
	}
	m.onUnavailable()
	return true
}

// wait waits until it makes sense to ask again.
func (m *optionalResource) wait(ctx context.Context) error {
	if m == nil || m.nextRequest.IsZero() {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Until(m.nextRequest))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
