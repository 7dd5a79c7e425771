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

// observedKernel is a kernel for the loop that reports when an awaited batch is
// committed. It observes the loop, too.
type observedKernel struct {
	*kernel.Kernel
	// alter alters each batch; nil leaves it unchanged.
	alter func(nft.Batch) nft.Batch

	awaited atomic.Pointer[awaitedBatch]
	// batchesBegun counts the batches that the loop has begun; open, for the loop's
	// goroutine only, is set while it builds one.
	batchesBegun atomic.Int64
	open         bool
	reports      chan sync.Result // the last one, until it is received

	mu             stdsync.Mutex
	rejectionTimes report.Times // how long the kernel took to reject a batch
	ends           report.Times // from the end of one sync to that of the next; nil unless recording
	end            time.Time
}

func observe(k *kernel.Kernel) *observedKernel {
	return &observedKernel{Kernel: k, reports: make(chan sync.Result, 1)}
}

// awaitedBatch describes a batch that is awaited: one that changes an element of a Service.
type awaitedBatch struct {
	comment string // "namespace/name:"
	found   chan commit
}

// commit is a committed batch.
type commit struct {
	batch   nft.Batch
	applied nft.Applied
	at      time.Time
	number  int64 // of batches that the loop had begun
}

// await returns a channel for the next batch with an element of the Service, or for any
// batch if there is no name.
func (w *observedKernel) await(name model.ServiceName) <-chan commit {
	a := &awaitedBatch{found: make(chan commit, 1)}
	if name != (model.ServiceName{}) {
		a.comment = commentOf(name)
	}
	w.awaited.Store(a)
	return a.found
}

// commentOf begins the comment of every element of a Service.
func commentOf(name model.ServiceName) string { return name.String() + ":" }

// Apply implements [sync.Kernel].
func (w *observedKernel) Apply(b nft.Batch) (nft.Applied, error) {
	if w.alter != nil {
		b = w.alter(b)
	}
	start := time.Now()
	applied, err := w.Kernel.Apply(b)
	at := time.Now()
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.rejectionTimes = append(w.rejectionTimes, at.Sub(start))
		return applied, err
	}
	if a := w.awaited.Load(); a != nil && concerns(b, a.comment) {
		w.awaited.Store(nil)
		a.found <- commit{b, applied, at, w.batchesBegun.Load()}
	}
	return applied, nil
}

// startRecording starts to record the time between the ends of syncs.
func (w *observedKernel) startRecording() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends, w.end = report.Times{}, time.Now()
}

// stopRecording stops to record, and returns the times.
func (w *observedKernel) stopRecording() report.Times {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.ends
	w.ends = nil
	return out
}

// rejections returns how long each batch took that the kernel rejected.
func (w *observedKernel) rejections() report.Times {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.rejectionTimes)
}

// concerns reports whether an element of the batch belongs to the Service.
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
func (w *observedKernel) Queued(sync.QueuedChanges) {
	if !w.open {
		w.open = true
		w.batchesBegun.Add(1)
	}
}

// Synced implements [sync.Observer].
func (w *observedKernel) Synced(r sync.Result) {
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
func (w *observedKernel) Node(sync.SetNode) {}
