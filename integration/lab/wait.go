package lab

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// retry repeats a call on the socket while it would block or was interrupted, and
// waits for an event before each repetition.
func (s *socket) retry(event int16, deadline time.Time, call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return n, err
		}
		if err := s.wait(event, deadline); err != nil {
			return 0, err
		}
	}
}

// wait waits until the socket has an event or an error. After the deadline the
// error is os.ErrDeadlineExceeded.
func (s *socket) wait(event int16, deadline time.Time) error {
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: event}}
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		timeout := unix.NsecToTimespec(int64(left))
		n, err := unix.Ppoll(fds, &timeout, nil)
		if err != nil && err != unix.EINTR {
			return err
		}
		if n > 0 {
			return nil
		}
	}
}
