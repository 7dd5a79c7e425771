package cluster

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// missing is about objects that a server may not have or not show. Nil is about
// objects that must be there.
//
// That a server does not have them (404) is believed at once, and it is then asked
// ever more rarely. That it does not show them (403) is believed only when it
// lasts: a server that has only just started refuses everything until it has read
// who may do what.
type missing struct {
	kind string // of the objects
	log  *slog.Logger
	// tell is called when they are missing.
	tell func()

	told  bool
	since time.Time // the first refusal of those in a row; zero if there is none
	// rarely is when to ask again what the server does not have, and next when that
	// is; zero is at once.
	rarely wait.Backoff
	next   time.Time
}

// refusalLasts is how long a refusal lasts that is meant, and refusedPause after
// how long, and up to twice that, it is then asked again.
const (
	refusalLasts = 15 * time.Second
	refusedPause = 30 * time.Second
)

func newMissing(kind string, log *slog.Logger, tell func()) *missing {
	m := &missing{kind: kind, log: log, tell: tell}
	m.found()
	return m
}

// found notes that they are there.
func (m *missing) found() {
	if m == nil {
		return
	}
	m.since, m.next = time.Time{}, time.Time{}
	m.rarely = wait.Backoff{Duration: 10 * time.Second, Factor: 2, Jitter: 1, Steps: 10, Cap: 10 * time.Minute}
}

// refused reports whether err may say that they are missing, and notes it.
func (m *missing) refused(err error) bool {
	if m == nil {
		return false
	}
	refused := apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
	switch {
	case !refused:
		m.since = time.Time{}
	case m.since.IsZero():
		m.since = time.Now()
	}
	return refused
}

// believed reports whether a refusal is meant, and if so tells that they are
// missing. The log says so once, because to a process that runs, what it knows is
// left anyway.
func (m *missing) believed(err error) bool {
	pause := wait.Jitter(refusedPause, 1)
	if apierrors.IsNotFound(err) {
		pause = m.rarely.Step()
	} else if time.Since(m.since) < refusalLasts {
		m.next = time.Time{}
		return false
	}
	m.next = time.Now().Add(pause)
	if !m.told {
		m.told = true
		m.log.Info("going on without what the API server does not have or not show", "kind", m.kind, "err", err)
	}
	m.tell()
	return true
}

// wait waits until it makes sense to ask again.
func (m *missing) wait(ctx context.Context) error {
	if m == nil || m.next.IsZero() {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Until(m.next))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
