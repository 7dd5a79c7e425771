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

// outages says when the API server no longer answers and when it does again, not
// each time that it is tried meanwhile. Kinds that are lost together are one
// outage; one that is lost for good does not hide a later outage of the others.
type outageLog struct {
	log          *slog.Logger
	shortWatches *shortWatchDetector

	mu          stdsync.Mutex
	lost        map[string]lostKind // by kind of objects
	last        *outage
	lastWarning time.Time // when a warning was last given
}

// lostKind is since when a kind of objects is lost, and what of that is part of.
type lostKind struct {
	*outage
	since time.Time
}

// outage is what kinds of objects that were lost together have in common.
type outage struct {
	since time.Time
	kinds int // how many are lost
	// firstSeen has the reasons, with the first time of each, and said those that a
	// warning told of.
	firstSeen map[metav1.StatusReason]time.Time
	warned    map[metav1.StatusReason]bool
	// lastSuccess is when any kind could last be read since; back tells that some of
	// this outage are among them, of which nothing was said yet.
	lastSuccess     time.Time
	partlyRecovered bool
}

const (
	// outageWindow is within what time kinds are lost that are lost together, and how
	// long something lasts that is worth a word though there was one recently.
	outageWindow = time.Minute
	// quietPeriod is how long the reader of the log is spared what comes and goes.
	quietPeriod = 5 * time.Minute
)

func newOutageLog(log *slog.Logger) *outageLog {
	return &outageLog{log: log, shortWatches: newShortWatchDetector(log), lost: map[string]lostKind{}}
}

// failed notes that objects of a kind could not be read.
func (c *outageLog) failed(kind string, err error) {
	if errors.Is(err, context.Canceled) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // the end, or only the reason for a new list
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	reason := apierrors.ReasonForError(err)
	l := c.recordLoss(kind, reason)
	c.logPartialRecovery(l.outage)
	level := slog.LevelDebug
	if c.shouldWarn(l, reason) {
		level, c.lastWarning, l.warned[reason] = slog.LevelWarn, time.Now(), true
	}
	c.log.Log(context.Background(), level, "the API cannot be read, what is known stays", "kind", kind, "err", withoutURL(err))
}

// recordLoss is the loss that a failure for that reason is, or goes on with.
func (c *outageLog) recordLoss(kind string, reason metav1.StatusReason) lostKind {
	l, was := c.lost[kind]
	if !was {
		if c.last == nil || !c.last.includes(reason) {
			c.last = &outage{
				since: time.Now(), firstSeen: map[metav1.StatusReason]time.Time{}, warned: map[metav1.StatusReason]bool{},
			}
		}
		l = lostKind{c.last, time.Now()}
		c.lost[kind] = l
		l.kinds++
	}
	if _, known := l.firstSeen[reason]; !known {
		l.firstSeen[reason] = time.Now()
	}
	return l
}

// includes reports whether a kind that is lost now is lost in the same outage.
func (o *outage) includes(reason metav1.StatusReason) bool {
	_, known := o.firstSeen[reason]
	alike := known && (o.lastSuccess.IsZero() || time.Since(o.lastSuccess) < outageWindow)
	return o.kinds > 0 && (alike || time.Since(o.since) < outageWindow)
}

// shouldWarn reports whether to warn. What has only just begun is worth it if
// nothing was said recently; else what lasts is, if it is an outage of which
// nothing was said at all, or a reason that no outage has told.
func (c *outageLog) shouldWarn(l lostKind, reason metav1.StatusReason) bool {
	recent := !c.lastWarning.IsZero() && time.Since(c.lastWarning) < quietPeriod
	lasts := min(time.Since(l.since), time.Since(l.firstSeen[reason])) >= outageWindow
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

// logPartialRecovery says that an outage is over for some kinds when it is clear that it is
// not for the others.
func (c *outageLog) logPartialRecovery(o *outage) {
	if !o.partlyRecovered || time.Since(o.lastSuccess) < outageWindow {
		return
	}
	o.partlyRecovered = false
	var rest []string
	for kind, of := range c.lost {
		if of.outage == o {
			rest = append(rest, kind)
		}
	}
	slices.Sort(rest)
	c.log.Info("the API can be read again", "but", rest, "after", o.lastSuccess.Sub(o.since).Round(time.Millisecond).String())
}

// inARow is the error without the address that was asked, which fills a line.
func withoutURL(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}

// succeeded notes that objects of a kind can be read.
func (c *outageLog) succeeded(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, lost := c.lost[kind]
	delete(c.lost, kind)
	for _, other := range c.lost {
		other.lastSuccess = time.Now()
	}
	if !lost {
		return
	}
	was.kinds--
	was.partlyRecovered = len(was.warned) > 0
	if was.kinds > 0 {
		return
	}
	level := slog.LevelDebug
	if was.partlyRecovered {
		level = slog.LevelInfo
	}
	c.log.Log(context.Background(), level, "the API can be read again", "after", time.Since(was.since).Round(time.Millisecond).String())
}
