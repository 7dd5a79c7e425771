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

// contact says when the API server no longer answers and when it does again, not
// each time that it is tried meanwhile. Kinds that are lost together are one
// outage; one that is lost for good does not hide a later outage of the others.
type contact struct {
	log   *slog.Logger
	brief *brevity

	mu   stdsync.Mutex
	lost map[string]loss // by kind of objects
	last *outage
	said time.Time // when a warning was last given
}

// loss is since when a kind of objects is lost, and what of that is part of.
type loss struct {
	*outage
	from time.Time
}

// outage is what kinds of objects that were lost together have in common.
type outage struct {
	since time.Time
	kinds int // how many are lost
	// why has the reasons, with the first time of each, and said those that a
	// warning told of.
	why  map[metav1.StatusReason]time.Time
	said map[metav1.StatusReason]bool
	// worked is when any kind could last be read since; back tells that some of
	// this outage are among them, of which nothing was said yet.
	worked time.Time
	back   bool
}

const (
	// together is within what time kinds are lost that are lost together, and how
	// long something lasts that is worth a word though there was one recently.
	together = time.Minute
	// recently is how long the reader of the log is spared what comes and goes.
	recently = 5 * time.Minute
)

func newContact(log *slog.Logger) *contact {
	return &contact{log: log, brief: newBrevity(log), lost: map[string]loss{}}
}

// failed notes that objects of a kind could not be read.
func (c *contact) failed(kind string, err error) {
	if errors.Is(err, context.Canceled) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // the end, or only the reason for a new list
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	reason := apierrors.ReasonForError(err)
	l := c.lossOf(kind, reason)
	c.sayRest(l.outage)
	level := slog.LevelDebug
	if c.worthSaying(l, reason) {
		level, c.said, l.said[reason] = slog.LevelWarn, time.Now(), true
	}
	c.log.Log(context.Background(), level, "the API cannot be read, what is known stays", "kind", kind, "err", short(err))
}

// lossOf is the loss that a failure for that reason is, or goes on with.
func (c *contact) lossOf(kind string, reason metav1.StatusReason) loss {
	l, was := c.lost[kind]
	if !was {
		if c.last == nil || !c.last.takes(reason) {
			c.last = &outage{
				since: time.Now(), why: map[metav1.StatusReason]time.Time{}, said: map[metav1.StatusReason]bool{},
			}
		}
		l = loss{c.last, time.Now()}
		c.lost[kind] = l
		l.kinds++
	}
	if _, known := l.why[reason]; !known {
		l.why[reason] = time.Now()
	}
	return l
}

// takes reports whether a kind that is lost now is lost in the same outage.
func (o *outage) takes(reason metav1.StatusReason) bool {
	_, known := o.why[reason]
	alike := known && (o.worked.IsZero() || time.Since(o.worked) < together)
	return o.kinds > 0 && (alike || time.Since(o.since) < together)
}

// worthSaying reports whether to warn. What has only just begun is worth it if
// nothing was said recently; else what lasts is, if it is an outage of which
// nothing was said at all, or a reason that no outage has told.
func (c *contact) worthSaying(l loss, reason metav1.StatusReason) bool {
	recent := !c.said.IsZero() && time.Since(c.said) < recently
	lasts := min(time.Since(l.from), time.Since(l.why[reason])) >= together
	if len(l.said) == 0 {
		return lasts || !recent && !c.brief.told()
	}
	for _, each := range c.lost {
		if each.said[reason] {
			return false
		}
	}
	return !recent && lasts
}

// sayRest says that an outage is over for some kinds when it is clear that it is
// not for the others.
func (c *contact) sayRest(o *outage) {
	if !o.back || time.Since(o.worked) < together {
		return
	}
	o.back = false
	var rest []string
	for kind, of := range c.lost {
		if of.outage == o {
			rest = append(rest, kind)
		}
	}
	slices.Sort(rest)
	c.log.Info("the API can be read again", "but", rest, "after", o.worked.Sub(o.since).Round(time.Millisecond).String())
}

// short is the error without the address that was asked, which fills a line.
func short(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}

// works notes that objects of a kind can be read.
func (c *contact) works(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, lost := c.lost[kind]
	delete(c.lost, kind)
	for _, other := range c.lost {
		other.worked = time.Now()
	}
	if !lost {
		return
	}
	was.kinds--
	was.back = len(was.said) > 0
	if was.kinds > 0 {
		return
	}
	level := slog.LevelDebug
	if was.back {
		level = slog.LevelInfo
	}
	c.log.Log(context.Background(), level, "the API can be read again", "after", time.Since(was.since).Round(time.Millisecond).String())
}
