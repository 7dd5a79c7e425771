package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	stdsync "sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An outageLog logs when the API server stops responding and when it responds again,
// but not each failed attempt in between. Kinds that fail together are one outage.
// A kind that fails permanently does not hide a later outage of the others.
type outageLog struct {
	log          *slog.Logger
	shortWatches *shortWatchDetector

	mu          stdsync.Mutex
	lost        map[string]lostKind // by kind
	last        *outage
	lastWarning time.Time
}

// A lostKind is a kind of object that cannot be read, and the outage it belongs to.
type lostKind struct {
	*outage
	lostSince time.Time
	err       error // of the last request
}

// An outage is shared by all kinds that failed together.
type outage struct {
	since     time.Time
	kinds     int                               // how many still fail
	firstSeen map[metav1.StatusReason]time.Time // by reason of failure
	warned    map[metav1.StatusReason]bool      // reasons that were logged as a warning
	// lastSuccess is when any kind, of this outage or not, was last read.
	lastSuccess time.Time
	// partlyRecovered is set when a kind of this outage recovered and that is not logged yet.
	partlyRecovered bool
}

const (
	// outageWindow is how close together failures must be to count as one outage, and
	// how long a failure must last to be logged in spite of a recent warning.
	outageWindow = time.Minute
	// quietPeriod is how long after a warning short failures are not logged.
	quietPeriod = 5 * time.Minute
)

func newOutageLog(log *slog.Logger) *outageLog {
	return &outageLog{log: log, shortWatches: newShortWatchDetector(log), lost: map[string]lostKind{}}
}

// failed records a failed request for objects of a kind.
func (c *outageLog) failed(kind string, err error) {
	if errors.Is(err, context.Canceled) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // shutting down, or the watch only has to start over with a list
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	reason := apierrors.ReasonForError(err)
	l := c.recordLoss(kind, reason, err)
	c.logPartialRecovery(l.outage)
	level := slog.LevelDebug
	if c.shouldWarn(l, reason) {
		level, c.lastWarning, l.warned[reason] = slog.LevelWarn, time.Now(), true
	}
	c.log.Log(context.Background(), level, "API server unavailable, keeping the last known objects", "kind", kind, "err",
		l.err)
}

// recordLoss returns the loss that the failure starts or continues.
func (c *outageLog) recordLoss(kind string, reason metav1.StatusReason, err error) lostKind {
	l, lost := c.lost[kind]
	if !lost {
		if c.last == nil || !c.last.includes(reason) {
			c.last = &outage{
				since: time.Now(), firstSeen: map[metav1.StatusReason]time.Time{}, warned: map[metav1.StatusReason]bool{},
			}
		}
		l = lostKind{outage: c.last, lostSince: time.Now()}
		l.kinds++
	}
	l.err = withoutURL(err)
	c.lost[kind] = l
	if _, seen := l.firstSeen[reason]; !seen {
		l.firstSeen[reason] = time.Now()
	}
	return l
}

// includes reports whether a kind that fails now, for that reason, is part of the outage.
func (o *outage) includes(reason metav1.StatusReason) bool {
	_, seen := o.firstSeen[reason]
	sameCause := seen && (o.lastSuccess.IsZero() || time.Since(o.lastSuccess) < outageWindow)
	return o.kinds > 0 && (sameCause || time.Since(o.since) < outageWindow)
}

// shouldWarn reports whether to log a failure as a warning: the first of an outage
// unless there was a recent warning, otherwise one that lasts, of an outage or for a
// reason that was not logged yet.
func (c *outageLog) shouldWarn(l lostKind, reason metav1.StatusReason) bool {
	recent := !c.lastWarning.IsZero() && time.Since(c.lastWarning) < quietPeriod
	lasts := min(time.Since(l.lostSince), time.Since(l.firstSeen[reason])) >= outageWindow
	if len(l.warned) == 0 {
		return lasts || !recent && !c.shortWatches.isActive()
	}
	for _, each := range c.lost {
		if each.warned[reason] {
			return false
		}
	}
	return !recent && lasts
}

// logPartialRecovery logs that some kinds of an outage recovered, once enough time has
// passed to show that the others did not.
func (c *outageLog) logPartialRecovery(o *outage) {
	if !o.partlyRecovered || time.Since(o.lastSuccess) < outageWindow {
		return
	}
	o.partlyRecovered = false
	var rest []string
	for kind, l := range c.lost {
		if l.outage == o {
			rest = append(rest, kind)
		}
	}
	slices.Sort(rest)
	c.log.Info("API server available again", "failing", rest, "duration",
		o.lastSuccess.Sub(o.since).Round(time.Millisecond).String())
}

// failure returns since when a kind cannot be read, and the last error; zero and nil if it
// can.
func (c *outageLog) failure(kind string) (since time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lost[kind]
	return l.lostSince, l.err
}

// withoutURL returns the error without the request's URL, which fills a line.
func withoutURL(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}

// succeeded records a successful request for objects of a kind.
func (c *outageLog) succeeded(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, lost := c.lost[kind]
	delete(c.lost, kind)
	for _, other := range c.lost {
		other.lastSuccess = time.Now()
	}
	if !lost {
		return
	}
	l.kinds--
	l.partlyRecovered = len(l.warned) > 0
	if l.kinds > 0 {
		return
	}
	level := slog.LevelDebug
	if l.partlyRecovered {
		level = slog.LevelInfo
	}
	c.log.Log(context.Background(), level, "API server available again", "duration",
		time.Since(l.since).Round(time.Millisecond).String())
}
