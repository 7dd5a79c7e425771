package localhost

import (
	"errors"
	"io"
	"net"
	stdsync "sync"
	"syscall"
	"time"
)

// copyBoth copies both directions between two connections until both have ended, and closes them. A
// direction that ends first is closed by itself, since its sender may wait for a response.
func copyBoth(a, b *net.TCPConn, drainTimeout time.Duration) {
	var other stdsync.WaitGroup
	other.Go(func() { copyOneWay(a, b, drainTimeout) })
	copyOneWay(b, a, drainTimeout)
	other.Wait()
	_ = a.Close()
	_ = b.Close()
}

// copyOneWay copies from one connection to the other until the end of the data. Both must
// be plain TCP connections, to make the kernel copy (splice(2)).
//
// If from was reset, to is reset, because its data is incomplete. But if to accepts no more data
// (EPIPE: it was closed regularly, or the other direction has seen the reset), the data that to
// had sent must still reach from. Then the data from it is discarded for a while, because the
// kernel resets a connection that is closed with unread data, and drops unsent data.
func copyOneWay(to, from *net.TCPConn, drainTimeout time.Duration) {
	_, err := io.Copy(to, from)
	switch {
	case err == nil:
		_ = to.CloseWrite() // an error means that it is closed
	case errors.Is(err, syscall.EPIPE):
		_ = from.SetReadDeadline(time.Now().Add(drainTimeout)) // fails if it is closed
		_, _ = io.Copy(io.Discard, from)
	default:
		reset(to)
		reset(from)
	}
}

// reset closes a connection with RST, which the other end cannot mistake for the end of the data.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // fails if it is closed
	_ = c.Close()
}
