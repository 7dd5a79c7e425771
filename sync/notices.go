package sync

import (
	"maps"
	"time"

	"golang.org/x/time/rate"
)

// What may be reported about the objects of one namespace, in log lines and events:
// so many at once, then one in so long. Beyond that they are counted; `kube-vmap
// get` shows all. Nor does one line hold more of an object's errors than so many
// bytes.
const (
	noticesAtOnce = 20
	noticePeriod  = 10 * time.Second
	maxNotice     = 2048
	// maxNamespaces is how many namespaces are remembered before those that
	// reported nothing for long are forgotten.
	maxNamespaces = 1024
)

// notices limits what is reported about objects by namespace, so that no author
// can fill the log of every node, or crowd out what others must know.
type notices map[string]*notice

// notice is what one namespace has used of its share.
type notice struct {
	rate.Limiter
	skipped int
}

// take reports whether one more notice about the namespace may go out, and how many
// did not since the last one that did.
func (n notices) take(namespace string) (skipped int, ok bool) {
	known := n[namespace]
	if known == nil {
		n.forget()
		known = &notice{Limiter: *rate.NewLimiter(rate.Every(noticePeriod), noticesAtOnce)}
		n[namespace] = known
	}
	if !known.Allow() {
		known.skipped++
		return 0, false
	}
	skipped, known.skipped = known.skipped, 0
	return skipped, true
}

// forget removes namespaces whose share is whole again, if there are many.
func (n notices) forget() {
	if len(n) < maxNamespaces {
		return
	}
	maps.DeleteFunc(n, func(_ string, known *notice) bool {
		return known.skipped == 0 && known.Tokens() >= noticesAtOnce
	})
}
