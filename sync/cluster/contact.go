package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	stdsync "sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// contact says when the API server no longer answers and when it does again, not
// each time that it is tried meanwhile.
type contact struct {
	log *slog.Logger

	mu    stdsync.Mutex
	lost  map[string]metav1.StatusReason // why, by kind of objects
	since time.Time
}

func newContact(log *slog.Logger) *contact {
	return &contact{log: log, lost: map[string]metav1.StatusReason{}}
}

// failed notes that objects of a kind could not be read. It is said aloud when it
// is the first kind, or for another reason than before.
func (c *contact) failed(kind string, err error) {
	if errors.Is(err, context.Canceled) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // the end, or only the reason for a new list
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	reason := apierrors.ReasonForError(err)
	before, was := c.lost[kind]
	level := slog.LevelDebug
	if len(c.lost) == 0 || was && before != reason {
		level = slog.LevelWarn
	}
	if len(c.lost) == 0 {
		c.since = time.Now()
	}
	c.lost[kind] = reason
	c.log.Log(context.Background(), level, "the API cannot be read, what is known stays", "kind", kind, "err", brief(err))
}

// brief is the error without the address that was asked, which fills a line.
func brief(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}

// works notes that objects of a kind can be read.
func (c *contact) works(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, was := c.lost[kind]; !was {
		return
	}
	delete(c.lost, kind)
	if len(c.lost) == 0 {
		c.log.Info("the API can be read again", "after", time.Since(c.since).Round(time.Millisecond).String())
	}
}
