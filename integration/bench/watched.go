package main

import (
	"slices"
	"strings"
	stdsync "sync"
	"sync/atomic"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
)

// watched is a kernel for the loop that knows when it has taken what is waited for.
// It observes the loop, too.
type watched struct {
	*kernel.Kernel
	// alter is what becomes of each batch on its way; nil leaves it as it is.
	alter func(nft.Batch) nft.Batch

	awaited atomic.Pointer[awaited]
	// begun is how many batches the loop has begun to put together; open, which only
	// the loop's goroutine knows, that it is about to.
	begun   atomic.Int64
	open    bool
	reports chan sync.Result // the last one, if nobody has taken it

	mu      stdsync.Mutex
	refused report.Times // how long the kernel took to refuse a batch
	ends    report.Times // from the end of one sync to that of the next; nil is not wanted
	end     time.Time
}

func newWatched(k *kernel.Kernel) *watched {
	return &watched{Kernel: k, reports: make(chan sync.Result, 1)}
}

// awaited is what somebody waits for: a batch that changes an element of a Service.
type awaited struct {
	comment string // "namespace/name:"
	found   chan commit
}

// commit is a batch that the kernel has taken.
type commit struct {
	batch   nft.Batch
	applied nft.Applied
	at      time.Time
	number  int64 // of batches the loop had begun to put together
}

// await gives notice of the next batch with something of the Service, or of any if
// there is no name.
func (w *watched) await(name model.ServiceName) <-chan commit {
	a := &awaited{found: make(chan commit, 1)}
	if name != (model.ServiceName{}) {
		a.comment = commentOf(name)
	}
	w.awaited.Store(a)
	return a.found
}

// commentOf begins the comment of every element of a Service.
func commentOf(name model.ServiceName) string { return name.String() + ":" }

// Apply implements [sync.Kernel].
func (w *watched) Apply(b nft.Batch) (nft.Applied, error) {
	if w.alter != nil {
		b = w.alter(b)
	}
	start := time.Now()
	applied, err := w.Kernel.Apply(b)
	at := time.Now()
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refused = append(w.refused, at.Sub(start))
		return applied, err
	}
	if a := w.awaited.Load(); a != nil && concerns(b, a.comment) {
		w.awaited.Store(nil)
		a.found <- commit{b, applied, at, w.begun.Load()}
	}
	return applied, nil
}

// record begins to note how long each sync takes, and what comes before it.
func (w *watched) record() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends, w.end = report.Times{}, time.Now()
}

// recorded ends that.
func (w *watched) recorded() report.Times {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.ends
	w.ends = nil
	return out
}

// refusals are how long each batch took that the kernel refused.
func (w *watched) refusals() report.Times {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.refused)
}

// concerns reports whether an element of the batch has a comment that begins so.
func concerns(b nft.Batch, comment string) bool {
	if comment == "" {
		return true
	}
	for _, op := range b {
		for _, e := range elementsOf(op) {
			if strings.HasPrefix(e.ServiceName(), comment) {
				return true
			}
		}
	}
	return false
}

func elementsOf(op nft.Op) []nft.Element {
	if op, deletes := op.(nft.DeleteElements); deletes {
		return op.Elements
	}
	_, list, _ := nft.AddedElements(op)
	return list
}

// Queued implements [sync.Observer].
func (w *watched) Queued(sync.QueuedChanges) {
	if !w.open {
		w.open = true
		w.begun.Add(1)
	}
}

// Synced implements [sync.Observer].
func (w *watched) Synced(r sync.Result) {
	w.open = false
	w.mu.Lock()
	if w.ends != nil {
		w.ends, w.end = append(w.ends, time.Since(w.end)), time.Now()
	}
	w.mu.Unlock()
	select {
	case <-w.reports:
	default:
	}
	w.reports <- r
}

// Node implements [sync.Observer].
func (w *watched) Node(sync.SetNode) {}
