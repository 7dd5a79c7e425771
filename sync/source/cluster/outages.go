package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	stdsync "sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An outageLog logs when objects cannot be read, and when they can again, but not each failed
// attempt. If kinds fail for the same reason, it logs the first one, and logs the end of the
// outage when all kinds can be read.
type outageLog struct {
	log *slog.Logger

	mu     stdsync.Mutex
	kinds  map[string]*kindOutage
	warned map[string]time.Time // last warnings, by reason
	began  time.Time            // of the outage that was logged, if any
}

type kindOutage struct {
	since     time.Time // of the failure
	err       error     // the last one; nil if they can be read
	warnedFor string    // the reason, if there was a warning
	heard     time.Time // when the server last said something; at first when the source started
}

const (
	// quietPeriod is how long after a warning further failures for the same reason cause no
	// other, unless one lasts for longOutage.
	quietPeriod = 5 * time.Minute
	longOutage  = 30 * time.Second
)

func newOutageLog(log *slog.Logger) *outageLog {
	return &outageLog{log: log, kinds: map[string]*kindOutage{}, warned: map[string]time.Time{}}
}

// lock returns the state of a kind, and the function that ends its use.
func (c *outageLog) lock(kind string) (k *kindOutage, unlock func()) {
	c.mu.Lock()
	if c.kinds[kind] == nil {
		c.kinds[kind] = &kindOutage{heard: time.Now()}
	}
	return c.kinds[kind], c.mu.Unlock
}

func (c *outageLog) failed(kind string, err error) {
	if errors.Is(err, context.Canceled) {
		return // shutting down
	}
	k, unlock := c.lock(kind)
	defer unlock()
	now, reason := time.Now(), reasonOf(err)
	if k.err == nil {
		k.since = now
	}
	k.err = withoutURL(err)
	level := slog.LevelDebug
	unlogged := now.Sub(k.since) >= longOutage && c.warned[reason].Before(k.since)
	if (unlogged || now.Sub(c.warned[reason]) >= quietPeriod) && !c.isWarned(reason) {
		level, k.warnedFor, c.warned[reason] = slog.LevelWarn, reason, now
		if c.began.IsZero() {
			c.began = k.since
		}
	}
	c.log.Log(context.Background(), level, "API server unavailable, keeping the last known objects", "kind", kind, "err",
		k.err)
}

// reasonOf returns the common reason of failures that are logged as one. It is never a text
// with addresses or times.
func reasonOf(err error) string {
	var timeout net.Error
	var errno syscall.Errno
	switch status := apierrors.ReasonForError(err); {
	case status != metav1.StatusReasonUnknown:
		return string(status)
	case errors.As(err, new(*net.DNSError)): // may also be a timeout, or refused
		return "name resolution"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.As(err, &errno):
		return errno.Error()
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return fmt.Sprintf("%T", err) // each failure of TLS has a type
}

// isWarned reports whether a warning was logged for a reason, about a kind that has failed
// since.
func (c *outageLog) isWarned(reason string) bool {
	for _, k := range c.kinds {
		if k.warnedFor == reason {
			return true
		}
	}
	return false
}

// succeeded records that a request works. Unless something was heard, because the server has only
// begun to respond, that does not end the failure of a request that was late.
func (c *outageLog) succeeded(kind string, heard bool) {
	k, unlock := c.lock(kind)
	defer unlock()
	if heard {
		k.heard = time.Now()
	}
	if k.err == nil || !heard && errors.As(k.err, new(lateError)) {
		return
	}
	k.since, k.err, k.warnedFor = time.Time{}, nil, ""
	for _, other := range c.kinds {
		if other.err != nil {
			return
		}
	}
	if !c.began.IsZero() {
		c.log.Info("API server available again", "duration", time.Since(c.began).Round(time.Millisecond).String())
		c.began = time.Time{}
	}
}

// withoutURL returns the error without the request's URL, which fills a line.
func withoutURL(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}
