package localhost

import (
	"errors"
	"io"
	"net"
	stdsync "sync"
	"syscall"
	"time"
)

// copyBoth copies both ways between two connections until both directions are done,
// and closes them. One that is done early is closed by itself: its end has sent
// all, and may wait for an answer.
func copyBoth(a, b *net.TCPConn, lingering time.Duration) {
	var one stdsync.WaitGroup
	one.Go(func() { copyOneWay(a, b, lingering) })
	copyOneWay(b, a, lingering)
	one.Wait()
	_ = a.Close()
	_ = b.Close()
}

// copyOneWay copies what comes from one connection into the other, until there is no
// more. Both must be bare TCP connections, so that the kernel does it (splice(2)).
//
// If from was reset, to is reset, since what it got is not all. But if to takes
// no more, what it had sent before must not be lost: EPIPE tells that it had
// closed its direction in good order, or that the other pour has seen the reset.
// Then what still comes is thrown away for a while, because the kernel resets a
// connection that is closed with something unread, and forgets what it had to
// send.
func copyOneWay(to, from *net.TCPConn, lingering time.Duration) {
	_, err := io.Copy(to, from)
	switch {
	case err == nil:
		_ = to.CloseWrite() // if it is closed already, the other pour has seen to it
	case errors.Is(err, syscall.EPIPE):
		_ = from.SetReadDeadline(time.Now().Add(lingering)) // fails if it is closed
		_, _ = io.Copy(io.Discard, from)
	default:
		reset(to)
		reset(from)
	}
}

// reset closes a connection in a way that the other end cannot take for the end
// of the data.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // fails if it is closed
	_ = c.Close()
}
