package main

import (
	"strings"
	"sync/atomic"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
)

// observedKernel is a kernel for the loop that reports when an awaited batch is
// committed. It observes the loop, too.
type observedKernel struct {
	*kernel.Kernel
	awaited atomic.Pointer[awaitedBatch]
	reports chan sync.Result // the last one, until it is received
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
	applied, err := w.Kernel.Apply(b)
	at := time.Now()
	if err != nil {
		return applied, err
	}
	if a := w.awaited.Load(); a != nil && concerns(b, a.comment) {
		w.awaited.Store(nil)
		a.found <- commit{b, applied, at}
	}
	return applied, nil
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
func (w *observedKernel) Queued(sync.QueuedChanges) {}

// Synced implements [sync.Observer].
func (w *observedKernel) Synced(r sync.Result) {
	select {
	case <-w.reports:
	default:
	}
	w.reports <- r
}

// Node implements [sync.Observer].
func (w *observedKernel) Node(sync.SetNode) {}
