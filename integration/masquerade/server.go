package masquerade

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Port is where servers listen.
const Port = 8080

// A Server accepts connections at [Port] of a host and closes them immediately.
type Server struct {
	fd   int
	done chan error
}

// Serve starts a server, which must be closed.
func Serve(h *lab.Host, f model.Family) (*Server, error) {
	s := &Server{fd: -1, done: make(chan error, 1)}
	err := h.Do(func() (err error) {
		s.fd, err = listen(h.AddrPort(f, Port))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("serve at %s: %w", h.AddrPort(f, Port), err)
	}
	go func() { s.done <- s.run() }()
	return s, nil
}

func listen(at netip.AddrPort) (int, error) {
	fd, err := open(at.Addr(), 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, sockaddr(at)); err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// run accepts until the socket is shut down.
func (s *Server) run() error {
	for {
		fd, _, err := unix.Accept4(s.fd, unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
			err = unix.Close(fd)
		case errors.Is(err, unix.EINVAL):
			return nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
			err = nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
	}
}

// Close ends the server.
func (s *Server) Close() error {
	return errors.Join(unix.Shutdown(s.fd, unix.SHUT_RDWR), <-s.done, unix.Close(s.fd))
}

// open opens a socket for addresses like this one.
func open(like netip.Addr, flags int) (int, error) {
	family := unix.AF_INET6
	if like.Is4() {
		family = unix.AF_INET
	}
	return unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, 0)
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}
