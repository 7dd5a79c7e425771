package cluster

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	stdsync "sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// An outageLog logs when objects cannot be read, and when they can again, but not each failed
// attempt in between. Kinds that fail for the same reason are one outage. One that fails
// permanently does not hide an outage of the others for another reason.
type outageLog struct {
	log *slog.Logger

	mu   stdsync.Mutex
	lost map[string]lostKind // by kind
	// short counts short watches in a row, by kind.
	short map[string]int
	// warned are the reasons that were logged as a warning and continue, with their beginning.
	warned      map[metav1.StatusReason]time.Time
	lastWarning time.Time
	recovered   time.Time // when a kind of the outage could be read again; zero if none could
}

// A lostKind is a kind of object that cannot be read.
type lostKind struct {
	since       time.Time
	reason      metav1.StatusReason // of the last failure
	reasonSince time.Time
	err         error
}

const (
	// outageWindow is how long a failure must last to be logged in spite of another warning, and
	// after how long those of the other kinds show that a recovery is one of some kinds only.
	outageWindow = time.Minute
	// quietPeriod is how long after a warning short failures are not logged.
	quietPeriod = 5 * time.Minute

	shortWatch      = 5 * time.Second // a watch that ends sooner is short
	maxShortWatches = 5               // so many in a row are a failure
	longWatch       = time.Minute     // one that lasts this long ends it
)

// errShortWatches is the failure of a server that responds, but cuts watches.
var errShortWatches = errors.New("watches end right after they begin, changes may arrive late")

func newOutageLog(log *slog.Logger) *outageLog {
	return &outageLog{
		log: log, lost: map[string]lostKind{}, short: map[string]int{}, warned: map[metav1.StatusReason]time.Time{},
	}
}

func (c *outageLog) failed(kind string, err error) {
	if errors.Is(err, context.Canceled) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // shutting down, or the watch only has to start over with a list
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	reason, now := apierrors.ReasonForError(err), time.Now()
	if errors.Is(err, errShortWatches) {
		reason = "ShortWatches"
	}
	l, known := c.lost[kind]
	if !known {
		l.since, c.recovered = now, time.Time{}
	}
	if !known || l.reason != reason {
		l.reason, l.reasonSince = reason, now
	}
	l.err = withoutURL(err)
	c.lost[kind] = l
	if !c.recovered.IsZero() && now.Sub(c.recovered) >= outageWindow {
		c.logRecovery(c.recovered)
	}
	level := slog.LevelDebug
	if c.shouldWarn(l) {
		level, c.lastWarning, c.warned[reason] = slog.LevelWarn, now, l.since
	}
	c.log.Log(context.Background(), level, "API server unavailable, keeping the last known objects", "kind", kind, "err",
		l.err)
}

// shouldWarn reports whether to log a failure as a warning: the first one unless there was a
// recent warning, otherwise one that lasts, for a reason that was not logged yet.
func (c *outageLog) shouldWarn(l lostKind) bool {
	recent := !c.lastWarning.IsZero() && time.Since(c.lastWarning) < quietPeriod
	lasts := time.Since(l.reasonSince) >= outageWindow
	if _, warned := c.warned[l.reason]; warned {
		return false
	}
	return lasts && !recent || len(c.warned) == 0 && (lasts || !recent)
}

func (c *outageLog) succeeded(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, lost := c.lost[kind]; !lost || c.short[kind] >= maxShortWatches {
		return
	}
	delete(c.lost, kind)
	if c.recovered = time.Now(); len(c.lost) == 0 {
		c.logRecovery(c.recovered)
	}
}

// logRecovery logs the end of the outages for reasons for which no kind fails any more.
func (c *outageLog) logRecovery(at time.Time) {
	began := at
	maps.DeleteFunc(c.warned, func(reason metav1.StatusReason, since time.Time) bool {
		for _, l := range c.lost {
			if l.reason == reason {
				return false
			}
		}
		if since.Before(began) {
			began = since
		}
		return true
	})
	if began.Equal(at) {
		return
	}
	log := c.log
	if len(c.lost) > 0 {
		log = log.With("failing", slices.Sorted(maps.Keys(c.lost)))
	}
	log.Info("API server available again", "duration", at.Sub(began).Round(time.Millisecond).String())
}

// failure returns since when a kind cannot be read, and the last error; zero and nil if it can.
func (c *outageLog) failure(kind string) (since time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lost[kind]
	return l.since, l.err
}

// withoutURL returns the error without the request's URL, which fills a line.
func withoutURL(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}

// observe returns a watch, and counts it if it is short, unless ctx ends first.
func (c *outageLog) observe(ctx context.Context, kind string, w watch.Interface) watch.Interface {
	start := time.Now()
	long := time.AfterFunc(longWatch, func() {
		c.setShort(kind, func(int) int { return 0 })
		c.succeeded(kind)
	})
	return &observedWatch{Interface: w, onStop: stdsync.OnceFunc(func() {
		long.Stop()
		switch took := time.Since(start); {
		case ctx.Err() != nil:
		case took >= shortWatch:
			c.setShort(kind, func(int) int { return 0 })
		case c.setShort(kind, func(n int) int { return n + 1 }) >= maxShortWatches:
			c.failed(kind, errShortWatches)
		}
	})}
}

func (c *outageLog) setShort(kind string, next func(int) int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.short[kind] = next(c.short[kind])
	return c.short[kind]
}

// An observedWatch calls onStop when its reader stops it, which the reader also does
// when the watch has ended by itself.
type observedWatch struct {
	watch.Interface
	onStop func()
}

// Stop implements [watch.Interface].
func (m *observedWatch) Stop() {
	m.onStop()
	m.Interface.Stop()
}
