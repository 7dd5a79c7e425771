package sync

import (
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// Observer is told what the loop does, for health and metrics. Its methods are
// called from the loop's goroutine and must not wait.
type Observer interface {
	// QueuedChanges tells of changes that the next sync takes in.
	Queued(QueuedChanges)
	// Synced tells how a sync went.
	Synced(Result)
	// Node tells what is now known of the node.
	Node(SetNode)
}

// QueuedChanges counts changes of objects.
type QueuedChanges struct {
	Services, Slices int
}

// Result is how a sync went. If it failed, only Err and Took are set, and what was
// queued stays so.
type Result struct {
	Err  error
	Took time.Duration // from the first look at what changed to the end
	// Full tells that all was compared with what the kernel holds, as at the
	// start; otherwise only what changed was looked at.
	Full bool
	// Drift tells that somebody else had changed our tables, which was repaired.
	Drift bool

	Applied nft.Applied
	Counts  nft.Counts
	// Triggered are when the changes of endpoints that the sync took in were
	// triggered, as far as that is known and was not before this process began.
	Triggered []time.Time

	// What stands: Services and endpoints, ports left out because the kernel
	// refused them, objects with problems, claims lost to other Services.
	Services, Endpoints          int
	RefusedPorts, RefusedObjects int
	Conflicts                    int
	NotLocal                     model.NoLocalEndpoints
}

// and adds what a second part of the same sync took.
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

// MultiObserver tells each of several.
type MultiObserver []Observer

// QueuedChanges implements [Observer].
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

// Recorder tells people about their objects where they look for it: as
// Kubernetes events.
type Recorder interface {
	// Warn must not wait. Reason is one word in CamelCase, note a sentence.
	Warn(o Object, reason, note string)
}

// Reasons of events.
const (
	// ReasonUnusable: the object, or part of it, is left out.
	ReasonUnusable = "Unusable"
	// ReasonRefused: the kernel would not take it.
	ReasonRefused = "RefusedByKernel"
	// ReasonOpen: source ranges of one family leave the other one open.
	ReasonOpen = "OpenToAnyone"
	// ReasonConflict: another Service holds the address and port.
	ReasonConflict = "AddressConflict"
)

// Reasons of events about Services whose ports cannot be listened on.
const (
	// ReasonHealthCheck: the health check node port, as kube-proxy says it.
	ReasonHealthCheck = "FailedToStartServiceHealthcheck"
	// ReasonLocalhost: a node port on localhost.
	ReasonLocalhost = "FailedToStartLocalhostNodePort"
)

// nopRecorder is the recorder of a loop that was given none.
type nopRecorder struct{}

func (nopRecorder) Warn(Object, string, string) {}
