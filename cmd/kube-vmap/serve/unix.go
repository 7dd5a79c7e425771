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

// listenUnix listens on a Unix socket, named as in package net. What a process left
// behind that is no more is replaced; where one answers, the error is EADDRINUSE.
// Only the owner may connect to a path, from its first moment on, and it is gone
// again when the listener is closed.
func listenUnix(ctx context.Context, network, address string) (net.Listener, error) {
	var c net.ListenConfig
	if strings.HasPrefix(address, "@") {
		return withPeers(c.Listen(ctx, network, address))
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
		// The file that bind makes takes over the mode of the socket (unix_bind_bsd).
		var failed error
		err := conn.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), ownerOnly) })
		return errors.Join(err, failed)
	}
	return withPeers(c.Listen(ctx, network, address))
}

// withPeers makes a listener say who is connected.
func withPeers(l net.Listener, err error) (net.Listener, error) {
	if err != nil {
		return nil, err
	}
	return peers{l}, nil
}

// ownerOnly is the mode of a socket's file.
const ownerOnly = 0o600

// lock keeps other processes from looking for stale sockets in a folder until the
// returned function is called: two that find the same one would each replace what
// the other has made of it.
func lock(folder string) (unlock func(), err error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", folder, err), dir.Close())
	}
	return func() { _ = dir.Close() }, nil // which gives up the lock
}

// clearStale removes the socket of a process that is no more. Of anything else at
// the path it is an error that it is there.
func clearStale(ctx context.Context, path string) error {
	there, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case there.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s is there, and no socket", path)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("%s: a process answers there: %w", path, syscall.EADDRINUSE), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err // it may be that somebody is only too busy
	}
	return os.Remove(path)
}
