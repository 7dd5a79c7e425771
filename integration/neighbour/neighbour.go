package neighbour

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	stdsync "sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
)

// pause is the time between two transactions: the lock is held that much longer than
// measured, at most.
const pause = 2 * time.Millisecond

// Neighbour writes until it is stopped. Its methods may be called at the same time.
//
// It has a thread on each of a few processors. The kernel does not interrupt who
// holds the lock on one of them, so that a thread that wakes up there comes to the
// lock when it is free again.
type Neighbour struct {
	stop    context.CancelFunc
	group   errgroup.Group
	threads []*thread
}

// threads are at most so many.
const threads = 4

// Start begins to write in the host's network namespace. It must be stopped.
func Start(h *lab.Host) (*Neighbour, error) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return nil, fmt.Errorf("find the processors: %w", err)
	}
	n := &Neighbour{}
	for cpu := 0; len(n.threads) < min(threads, allowed.Count()); cpu++ {
		if !allowed.IsSet(cpu) {
			continue
		}
		s, err := open(h)
		if err != nil {
			return nil, errors.Join(err, n.close())
		}
		n.threads = append(n.threads, &thread{socket: s, cpu: cpu})
	}
	var ctx context.Context
	ctx, n.stop = context.WithCancel(context.Background())
	for _, each := range n.threads {
		n.group.Go(func() error { return each.run(ctx) })
	}
	return n, nil
}

// Take returns the longest wait since it was last called, that of a transaction
// which still waits included.
func (n *Neighbour) Take() (longest time.Duration) {
	for _, each := range n.threads {
		longest = max(longest, each.take())
	}
	return longest
}

// Turn waits for a transaction that began after the call: so all others that were
// under way have let go of the lock. Packets follow a transaction before that, since
// the kernel frees what it deleted at its end.
func (n *Neighbour) Turn() {
	from := make([]int, len(n.threads))
	for i, each := range n.threads {
		from[i] = each.ended()
	}
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for i, each := range n.threads {
		for from[i] < math.MaxInt && each.ended() < from[i]+2 { // the first may have begun before
			<-ticker.C
		}
	}
}

// Stop ends it and returns what went wrong.
func (n *Neighbour) Stop() error {
	n.stop()
	return errors.Join(n.group.Wait(), n.close())
}

func (n *Neighbour) close() (err error) {
	for _, each := range n.threads {
		err = errors.Join(err, each.socket.close())
	}
	return err
}

// thread writes on one processor.
type thread struct {
	socket socket
	cpu    int

	mu      stdsync.Mutex
	began   time.Time // of the transaction under way; zero if there is none
	longest time.Duration
	count   int // of those that ended
	over    bool
}

// run keeps its thread of the operating system, which has real-time priority: it
// would otherwise measure how long it waits for a processor. The thread must not end,
// since processes that it started would end with it (see [lab.Host.Command]).
func (t *thread) run(ctx context.Context) (err error) {
	defer t.leave()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore, err := t.prepare()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	batch, between := addTable(), unix.NsecToTimespec(int64(pause))
	for ctx.Err() == nil {
		_ = unix.Nanosleep(&between, nil) // a signal may end it early
		t.begin()
		err := t.socket.send(batch)
		t.end()
		if err != nil {
			return err
		}
	}
	return nil
}

// prepare gives the calling thread its processor and its priority; restore takes them
// back.
func (t *thread) prepare() (restore func() error, err error) {
	var before, own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("find a thread's processors: %w", err)
	}
	own.Set(t.cpu)
	usual := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
	first := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	restore = func() error {
		return errors.Join(unix.SchedSetAttr(0, &usual, 0), unix.SchedSetaffinity(0, &before))
	}
	if err := errors.Join(unix.SchedSetaffinity(0, &own), unix.SchedSetAttr(0, &first, 0)); err != nil {
		return nil, errors.Join(fmt.Errorf("give a thread processor %d and real-time priority: %w", t.cpu, err), restore())
	}
	return restore, nil
}

func (t *thread) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = time.Now()
}

func (t *thread) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began, t.longest = time.Time{}, max(t.longest, time.Since(t.began))
	t.count++
}

// ended is how many transactions have ended, or a number that no more can reach if
// there will be none.
func (t *thread) ended() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return math.MaxInt
	}
	return t.count
}

func (t *thread) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

func (t *thread) take() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	longest := t.longest
	if !t.began.IsZero() {
		longest = max(longest, time.Since(t.began))
	}
	t.longest = 0
	return longest
}
