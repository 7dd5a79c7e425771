package sync

import (
	"log/slog"
	"maps"
	"time"

	"golang.org/x/time/rate"
)

// Limits of what is reported about the objects of one namespace in log lines and events.
// The excess is counted; `kube-vmap get` shows everything.
const (
	noticeBurst  = 20
	noticePeriod = 10 * time.Second // between notices after the burst
	maxNotice    = 2048             // bytes of one notice
	// maxNamespaces is how many namespaces are remembered before inactive ones are
	// forgotten.
	maxNamespaces = 1024
)

// Notices are events and log lines about objects, limited by namespace. Only one goroutine may use
// them.
type Notices struct {
	log      *slog.Logger
	recorder Recorder
	limits   noticeLimits
}

// NewNotices returns notices that go to a log and to a recorder, which may be nil.
func NewNotices(r Recorder, log *slog.Logger) *Notices {
	if r == nil {
		r = nopRecorder{}
	}
	return &Notices{log: log, recorder: r, limits: noticeLimits{}}
}

// Notify reports something about an object as an event, and returns the log for a line about it.
// Beyond the limits of the object's namespace it sends no event, and the log discards the line.
func (n *Notices) Notify(o Object, reason, note string) *slog.Logger {
	skipped, ok := n.limits.take(o.Namespace)
	if !ok {
		return slog.New(slog.DiscardHandler)
	}
	n.recorder.Warn(o, reason, note)
	if skipped > 0 {
		return n.log.With("skipped", skipped)
	}
	return n.log
}

// noticeLimits limits what is reported about objects by namespace, to keep any author
// from filling the log of every node, or displacing what others must know.
type noticeLimits map[string]*noticeLimit

// noticeLimit is the limit of one namespace.
type noticeLimit struct {
	rate.Limiter
	skipped int
}

// take reports whether one more notice about the namespace may be sent, and how many
// were skipped since the last one.
func (n noticeLimits) take(namespace string) (skipped int, ok bool) {
	known := n[namespace]
	if known == nil {
		n.forget()
		known = &noticeLimit{Limiter: *rate.NewLimiter(rate.Every(noticePeriod), noticeBurst)}
		n[namespace] = known
	}
	if !known.Allow() {
		known.skipped++
		return 0, false
	}
	skipped, known.skipped = known.skipped, 0
	return skipped, true
}

// forget removes namespaces that may send a whole burst again, if there are many.
func (n noticeLimits) forget() {
	if len(n) < maxNamespaces {
		return
	}
	maps.DeleteFunc(n, func(_ string, known *noticeLimit) bool {
		return known.skipped == 0 && known.Tokens() >= noticeBurst
	})
}
