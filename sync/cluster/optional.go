package cluster

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/sync"
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
	o := &optionalResource{kind: kind, log: log, onUnavailable: onUnavailable}
	o.available()
	return o
}

func (o *optionalResource) available() {
	if o == nil {
		return
	}
	o.refusedSince, o.nextRequest = time.Time{}, time.Time{}
	o.notFoundBackoff = wait.Backoff{Duration: 10 * time.Second, Factor: 2, Jitter: 1, Steps: 10, Cap: 10 * time.Minute}
}

// refused records a failed request. It reports whether the error may mean that the
// resource is unavailable.
func (o *optionalResource) refused(err error) bool {
	if o == nil {
		return false
	}
	refused := apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
	switch {
	case !refused:
		o.refusedSince = time.Time{}
	case o.refusedSince.IsZero():
		o.refusedSince = time.Now()
	}
	return refused
}

// isUnavailable reports whether a refusal counts, and calls onUnavailable if so. That
// is logged once: objects that were read before stay known.
func (o *optionalResource) isUnavailable(err error) bool {
	pause := wait.Jitter(forbiddenRetry, 1)
	if apierrors.IsNotFound(err) {
		pause = o.notFoundBackoff.Step()
	} else if time.Since(o.refusedSince) < forbiddenGrace {
		o.nextRequest = time.Time{}
		return false
	}
	o.nextRequest = time.Now().Add(pause)
	if !o.logged {
		o.logged = true
		o.log.Info("API resource unavailable, continuing without it", "kind", o.kind, "err", err)
	}
	o.onUnavailable()
	return true
}

func (o *optionalResource) wait(ctx context.Context) error {
	if o != nil && !o.nextRequest.IsZero() {
		sync.Sleep(ctx, time.Until(o.nextRequest))
	}
	return ctx.Err()
}
