package listen

import (
	"errors"
	"log/slog"
	"net"
	stdsync "sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// maxDescriptors is the soft limit of file descriptors, which Go's runtime has raised to one less
// than the hard limit.
var maxDescriptors = stdsync.OnceValue(func() int {
	limit := unix.Rlimit{Cur: 1024}
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // fails for no process's own limit
	return int(min(limit.Cur, 1<<30))
})

// Share returns an n-th part of the file descriptors that the process may have. Users of this
// package have at most 7/8 of all together: the rest is for the proxy itself.
func Share(n int) int { return maxDescriptors() / n }

// exhausted is of the process, whose listeners run out of descriptors together.
var exhausted = rate.Sometimes{Interval: time.Hour}

// A PatientListener waits a second when no descriptor is left. Servers that got the error would log
// each attempt to accept a connection, many times a second, or close the socket.
type PatientListener struct {
	net.Listener
	Log *slog.Logger
}

// Accept implements [net.Listener].
func (l PatientListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if !errors.Is(err, syscall.EMFILE) {
			return conn, err
		}
		exhausted.Do(func() {
			l.Log.Warn("cannot accept, retrying", "address", l.Addr().String(), "limit", maxDescriptors(), "err", err)
		})
		time.Sleep(time.Second)
	}
}
