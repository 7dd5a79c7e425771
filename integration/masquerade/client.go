package masquerade

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
)

// patience is how long a connection may take.
const patience = 30 * time.Second

// Load is many connections, one after the other by each worker.
type Load struct {
	Hosts []*lab.Host  // workers ask from them in turns
	From  []netip.Addr // connections have these addresses in turns; the hosts' own if there are none
	To    netip.AddrPort
	Count int
	// Workers is how many connections there are at a time.
	Workers int
}

// Result is what clients saw of a [Load].
type Result struct {
	// Latencies is how long each connection took to be established, sorted.
	Latencies []time.Duration
	// Again is how many connections sent their SYN again, Twice how many more than once.
	Again, Twice int
	Took         time.Duration
}

// Run makes all connections. Each must be established, and closed by the server.
func (l Load) Run() (Result, error) {
	var next atomic.Int64
	results := make([]Result, l.Workers)
	start := time.Now()
	var group errgroup.Group
	for i := range results {
		group.Go(func() error {
			host := l.Hosts[i%len(l.Hosts)]
			return host.Do(func() error { return l.work(&next, &results[i]) })
		})
	}
	err := group.Wait()
	sum := Result{Took: time.Since(start)}
	for _, r := range results {
		sum.Latencies = append(sum.Latencies, r.Latencies...)
		sum.Again, sum.Twice = sum.Again+r.Again, sum.Twice+r.Twice
	}
	slices.Sort(sum.Latencies)
	return sum, err
}

func (l Load) work(next *atomic.Int64, r *Result) error {
	for {
		n := int(next.Add(1)) - 1
		if n >= l.Count {
			return nil
		}
		var from netip.AddrPort
		if len(l.From) > 0 {
			from = netip.AddrPortFrom(l.From[n%len(l.From)], 0)
		}
		c, err := newConnection(from, l.To)
		if err == nil {
			err = errors.Join(c.use(r), unix.Close(c.fd))
		}
		if err != nil {
			next.Add(int64(l.Count)) // the others end, too
			return fmt.Errorf("connection %d to %s: %w", n, l.To, err)
		}
	}
}

// connection is a client's end.
type connection struct {
	fd       int
	to       netip.AddrPort
	patience time.Duration
}

// newConnection opens a socket in the network namespace of the calling thread. Without a port
// the kernel chooses one that is free for this destination.
func newConnection(from, to netip.AddrPort) (connection, error) {
	fd, err := open(unix.SOCK_STREAM, to.Addr(), unix.SOCK_NONBLOCK)
	if err != nil {
		return connection{}, err
	}
	if from.Addr().IsValid() {
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
			unix.Bind(fd, sockaddr(from)),
		)
	}
	if err != nil {
		return connection{}, errors.Join(err, unix.Close(fd))
	}
	return connection{fd, to, patience}, nil
}

// use connects, and waits until the server closes.
func (c connection) use(r *Result) error {
	start := time.Now()
	if err := c.connect(); err != nil {
		return err
	}
	r.Latencies = append(r.Latencies, time.Since(start))
	info, err := unix.GetsockoptTCPInfo(c.fd, unix.SOL_TCP, unix.TCP_INFO)
	if err != nil {
		return err
	}
	if info.Total_retrans > 0 {
		r.Again++
	}
	if info.Total_retrans > 1 {
		r.Twice++
	}
	if err := c.await(unix.POLLIN); err != nil {
		return err
	}
	if n, err := unix.Read(c.fd, make([]byte, 1)); n != 0 || err != nil {
		return fmt.Errorf("read %d bytes: %w", n, err)
	}
	return nil
}

func (c connection) connect() error {
	err := unix.Connect(c.fd, sockaddr(c.to))
	if err == nil || !errors.Is(err, unix.EINPROGRESS) && !errors.Is(err, unix.EINTR) {
		return err
	}
	if err := c.await(unix.POLLOUT); err != nil {
		return err
	}
	errno, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	return err
}

// await waits until the socket is ready.
func (c connection) await(events int16) error {
	for deadline := time.Now().Add(c.patience); ; {
		left := time.Until(deadline)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: events}}, max(int(left.Milliseconds()), 0))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n == 0:
			return os.ErrDeadlineExceeded
		default:
			return nil
		}
	}
}
