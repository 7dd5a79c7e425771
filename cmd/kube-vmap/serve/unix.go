package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// listenUnix listens on a Unix socket, named as in package net. A stale socket file is
// replaced; if a process answers on it, the error is EADDRINUSE. Only the owner may connect
// to a path, and the file is removed when the listener is closed.
func listenUnix(ctx context.Context, network, address string) (net.Listener, error) {
	var c net.ListenConfig
	if strings.HasPrefix(address, "@") {
		return c.Listen(ctx, network, address)
	}
	unlock, err := lock(filepath.Dir(address))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := clearStale(ctx, address); err != nil {
		return nil, err
	}
	c.Control = func(_, _ string, conn syscall.RawConn) error {
		// The file gets the mode of the socket (unix_bind_bsd).
		var failed error
		err := conn.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), ownerOnly) })
		return errors.Join(err, failed)
	}
	return c.Listen(ctx, network, address)
}

const ownerOnly = 0o600

// lock locks a folder until the returned function is called. Otherwise two processes that
// find the same stale socket would each remove the socket of the other.
func lock(folder string) (unlock func(), err error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", folder, err), dir.Close())
	}
	return func() { _ = dir.Close() }, nil // releases the lock
}

// clearStale removes the socket of a process that has ended. Any other file at the path is
// an error.
func clearStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("%s: another process listens on it: %w", path, syscall.EADDRINUSE), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err // the process may only be busy
	}
	return os.Remove(path)
}
