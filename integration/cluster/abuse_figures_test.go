package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Budgets for what one tenant of a cluster may cost the node and the other tenants. A
// correct proxy needs two to three times less, so that a busy machine does not fail the
// test; an object that costs more than it should exceeds them by far.
const (
	// maxAnswer is how long a request to the victim may take.
	maxAnswer = 700 * time.Millisecond
	// maxFollow is how long the change of another Service may take from the API's
	// answer to the first packet that follows it. Kubernetes' objective is 1 s for a
	// cluster that is not under attack (network programming latency).
	maxFollow = 3 * time.Second
	// maxLock is how long a transaction may block nf_tables for other programs. The mark
	// is 100 ms, but here the API server and others preempt the proxy while it holds the lock.
	maxLock = 400 * time.Millisecond
	// maxCPU is for a phase of an attack, and maxCPUPerMB for each megabyte of objects to
	// decode. It includes the changes of the other Service.
	maxCPU, maxCPUPerMB = 3 * time.Second, 150 * time.Millisecond
	// maxRSS is the growth of the peak of resident memory. An object of 1.5 MB is several
	// times as large when decoded, and the garbage collector lets the heap double: to delete
	// 200,000 elements, object by object, takes 115 to 330 MB, as it happens to collect.
	maxRSS = 400 << 20
	// maxHeap is the growth of live memory, with the objects in place.
	maxHeap = 100 << 20
	// maxLines and maxBytes are for the log of a phase, with an addition for each object:
	// each may be invalid, which is logged with up to 20 errors of 256 bytes.
	maxLines, maxLinesPerWrite = 500, 3
	maxBytes, maxBytesPerWrite = 128 << 10, 8 << 10
	// maxEvents is how many Events a phase may create in the API. They are rate-limited,
	// with a small burst.
	maxEvents = 60
	// maxElements is of all sets together. An element takes about 150 bytes of the
	// kernel's memory.
	maxElements = 250_000
	// maxObjects is for chains and sets. The kernel finds each by walking a list. Where
	// one Service uses the scheduler mh, all share a chain and a map for each of its
	// 251 slots, by family.
	maxObjects = 2500
)

// Limits for what remains of an attack when all its objects are deleted.
const (
	// maxHeapLeft is for maps, which do not shrink, and maxGoroutinesLeft for those of
	// connections and requests.
	maxHeapLeft, maxGoroutinesLeft = 16 << 20, 8
	// maxRSSLeft is for memory that the runtime returns later.
	maxRSSLeft = 200 << 20
)

// figure is a cost of a phase of an attack, and its budget.
type figure struct {
	what       string
	is, budget int64
	// waits is set for how long others waited, which also depends on what else the machine does.
	waits bool
}

// check logs figures, and fails the test for each beyond its budget, with -short not for waits.
func check(t *testing.T, phase string, figures ...figure) {
	t.Helper()
	var all []string
	for _, f := range figures {
		all = append(all, fmt.Sprintf("%d %s", f.is, f.what))
		if f.is > f.budget && !(f.waits && testing.Short()) {
			t.Errorf("%s: %d %s, budget %d", phase, f.is, f.what, f.budget)
		}
	}
	t.Logf("%s: %s", phase, strings.Join(all, ", "))
}
