package sync

import (
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// An Observer is notified of what the loop does, for health and metrics. Its methods
// are called on the loop's goroutine and must not block.
type Observer interface {
	// Queued is called when changes are queued for the next sync.
	Queued(QueuedChanges)
	// Synced is called after each sync.
	Synced(Result)
	// Node is called when the node changed.
	Node(SetNode)
}

// QueuedChanges counts changes of objects; an update that changes nothing is not one.
type QueuedChanges struct {
	Services, Slices int
}

// A Result is the result of a sync. If it failed, only Err and Took are set, and the
// queued changes stay queued.
type Result struct {
	Err  error
	Took time.Duration
	// Full reports that everything was compared with what the kernel holds, as at the
	// start, not only what changed.
	Full bool
	// Drift reports that changes of our tables by another program were reverted.
	Drift bool

	Applied nft.Applied
	Counts  nft.Counts
	// Triggered are the times when the changes of endpoints in this sync were triggered,
	// where known and not before this process began.
	Triggered []time.Time
	// Postponed reports that changes of some namespaces wait.
	Postponed bool

	// Totals after the sync.
	Services, Endpoints int
	QuarantinedPorts    int
	InvalidObjects      int // objects with problems
	Conflicts           int // claims lost to other Services
	NoLocalEndpoints    model.NoLocalEndpoints
	NodeProblems        []Problem // of the node itself, sorted
}

// and adds the costs of a second part of the same sync.
func (r Result) and(o Result) Result {
	r.Applied.Steps += o.Applied.Steps
	r.Applied.Messages += o.Applied.Messages
	r.Applied.Bytes += o.Applied.Bytes
	r.Applied.Kernel += o.Applied.Kernel
	r.Applied.Took += o.Applied.Took
	r.Counts.Added += o.Counts.Added
	r.Counts.Deleted += o.Counts.Deleted
	r.Counts.Objects += o.Counts.Objects
	return r
}

// MultiObserver notifies each of several observers.
type MultiObserver []Observer

// Queued implements [Observer].
func (o MultiObserver) Queued(q QueuedChanges) {
	for _, each := range o {
		each.Queued(q)
	}
}

// Synced implements [Observer].
func (o MultiObserver) Synced(r Result) {
	for _, each := range o {
		each.Synced(r)
	}
}

// Node implements [Observer].
func (o MultiObserver) Node(n SetNode) {
	for _, each := range o {
		each.Node(n)
	}
}

// A Recorder reports to users about their objects, as Kubernetes events.
type Recorder interface {
	// Warn must not block. The reason is one word in CamelCase, the note a sentence.
	Warn(o Object, reason, note string)
}

// nopRecorder does nothing.
type nopRecorder struct{}

// Warn implements [Recorder].
func (nopRecorder) Warn(Object, string, string) {}
