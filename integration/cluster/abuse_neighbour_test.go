package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	stdsync "sync"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// writePause is the time between two transactions. The lock can be held that much longer than
// measured.
const writePause = 2 * time.Millisecond

// neighbour is another program on a node that writes nf_tables, and measures how long each of its
// transactions waits. All transactions of a network namespace are serialized by one lock
// (commit_mutex), whatever table they change: so the longest wait is how long the proxy held the
// lock. The first transaction adds a table, the others change nothing, and so do not disturb
// programs that watch the rule set. Its methods may be called concurrently.
//
// It has threads on several processors: on the processor of the lock's holder, which the
// kernel does not preempt, a thread would run only after the lock is released.
type neighbour struct {
	stop    context.CancelFunc
	group   errgroup.Group
	threads []*writerThread
}

// startNeighbour starts to write in the host's network namespace. The caller must stop it.
func startNeighbour(h *lab.Host) (*neighbour, error) {
	const maxThreads = 4
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return nil, fmt.Errorf("list the processors: %w", err)
	}
	n := &neighbour{}
	for cpu := 0; len(n.threads) < min(maxThreads, allowed.Count()); cpu++ {
		if !allowed.IsSet(cpu) {
			continue
		}
		conn, err := socket.Open(h.FD())
		if err != nil {
			return nil, errors.Join(err, n.close())
		}
		n.threads = append(n.threads, &writerThread{conn: conn, cpu: cpu})
	}
	var ctx context.Context
	ctx, n.stop = context.WithCancel(context.Background())
	for _, each := range n.threads {
		n.group.Go(func() error { return each.run(ctx) })
	}
	return n, nil
}

// take returns the longest wait since the last call, including that of a transaction
// that still waits.
func (n *neighbour) take() (longest time.Duration) {
	for _, each := range n.threads {
		longest = max(longest, each.take())
	}
	return longest
}

// turn waits for a transaction that began after the call: then all earlier ones have
// released the lock. Packets see a transaction before that, since the kernel frees
// deleted objects at its end.
func (n *neighbour) turn() {
	from := make([]int, len(n.threads))
	for i, each := range n.threads {
		from[i] = each.ended()
	}
	ticker := time.NewTicker(writePause)
	defer ticker.Stop()
	for i, each := range n.threads {
		for from[i] < math.MaxInt && each.ended() < from[i]+2 { // the first one may have begun before
			<-ticker.C
		}
	}
}

// end ends the threads and returns their errors.
func (n *neighbour) end() error {
	n.stop()
	return errors.Join(n.group.Wait(), n.close())
}

func (n *neighbour) close() (err error) {
	for _, each := range n.threads {
		err = errors.Join(err, each.conn.Close())
	}
	return err
}

// writerThread writes on one processor.
type writerThread struct {
	conn *netlink.Conn
	cpu  int

	mu      stdsync.Mutex
	began   time.Time // of the running transaction; zero if there is none
	longest time.Duration
	count   int // of completed transactions
	over    bool
}

// run locks its operating system thread, which has real-time priority: otherwise it
// would also measure how long it waits for a processor. The thread must not end, since
// processes that it started would end with it (see [lab.Host.Command]).
func (t *writerThread) run(ctx context.Context) (err error) {
	defer t.leave()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore, err := t.prepare()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	between := unix.NsecToTimespec(int64(writePause))
	var batch socket.Batch
	batch.Add(unix.NFT_MSG_NEWTABLE, netlink.Create, unix.NFPROTO_INET, func(e *attr.Encoder) { e.String(unix.NFTA_TABLE_NAME, "neighbour") })
	for ctx.Err() == nil {
		_ = unix.Nanosleep(&between, nil) // a signal may end it early
		t.begin()
		err := batch.Commit(t.conn, nil)
		t.end()
		if err != nil {
			return err
		}
	}
	return nil
}

// prepare sets the processor and the priority of the calling thread; restore resets
// them.
func (t *writerThread) prepare() (restore func() error, err error) {
	var before, own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("get a thread's processors: %w", err)
	}
	own.Set(t.cpu)
	usual := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
	first := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	restore = func() error {
		return errors.Join(unix.SchedSetAttr(0, &usual, 0), unix.SchedSetaffinity(0, &before))
	}
	if err := errors.Join(unix.SchedSetaffinity(0, &own), unix.SchedSetAttr(0, &first, 0)); err != nil {
		return nil, errors.Join(fmt.Errorf("set processor %d and real-time priority of a thread: %w", t.cpu, err), restore())
	}
	return restore, nil
}

func (t *writerThread) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = time.Now()
}

func (t *writerThread) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began, t.longest = time.Time{}, max(t.longest, time.Since(t.began))
	t.count++
}

// ended returns the number of completed transactions, or the largest number if the
// thread has ended.
func (t *writerThread) ended() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return math.MaxInt
	}
	return t.count
}

func (t *writerThread) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

func (t *writerThread) take() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	longest := t.longest
	if !t.began.IsZero() {
		longest = max(longest, time.Since(t.began))
	}
	t.longest = 0
	return longest
}
