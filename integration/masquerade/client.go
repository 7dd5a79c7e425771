package masquerade

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
)

// patience is how long a connection may take.
const patience = 30 * time.Second

// Load is many connections of one host, one after the other.
type Load struct {
	Host  *lab.Host
	To    netip.AddrPort
	Count int
}

// Result is what the client saw of a [Load].
type Result struct {
	// Latencies is how long each connection took to be established, sorted.
	Latencies []time.Duration
	// Twice is how many connections sent their SYN again more than once.
	Twice int
	Took  time.Duration
}

// Run makes all connections. Each must be established, and closed by the server.
func (l Load) Run() (r Result, err error) {
	start := time.Now()
	err = l.Host.Do(func() error {
		for n := range l.Count {
			c, err := newConnection(l.To)
			if err == nil {
				err = errors.Join(c.use(&r), unix.Close(c.fd))
			}
			if err != nil {
				return fmt.Errorf("connection %d to %s: %w", n, l.To, err)
			}
		}
		return nil
	})
	r.Took = time.Since(start)
	slices.Sort(r.Latencies)
	return r, err
}

// connection is a client's end.
type connection struct {
	fd int
	to netip.AddrPort
}

// newConnection opens a socket in the network namespace of the calling thread. The kernel
// chooses a port that is free for this destination.
func newConnection(to netip.AddrPort) (connection, error) {
	fd, err := open(to.Addr(), unix.SOCK_NONBLOCK)
	return connection{fd, to}, err
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
	for deadline := time.Now().Add(patience); ; {
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
