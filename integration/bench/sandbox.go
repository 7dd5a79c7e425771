package main

import (
	"errors"
	"fmt"

	"kube-vmap/integration/lab"
	"kube-vmap/nft/kernel"
)

// sandbox is an empty network namespace, and two ways to program it: package kernel and a
// raw socket.
type sandbox struct {
	host   *lab.Host
	kernel *kernel.Kernel
	raw    *rawSocket
	leave  func() error
}

// newSandbox makes a namespace, which must be closed.
func newSandbox() (*sandbox, error) {
	host, leave, err := lab.Alone()
	if err != nil {
		return nil, err
	}
	s := &sandbox{host: host, leave: leave}
	err = host.Do(func() (err error) { s.raw, err = openRawSocket(); return err })
	if err == nil {
		s.kernel, err = s.open()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open nf_tables of a network namespace: %w", err), s.close())
	}
	return s, nil
}

// open opens it once more, as another process would.
func (s *sandbox) open() (*kernel.Kernel, error) {
	return kernel.Open(kernel.Config{NetNS: s.host.FD()})
}

// close leaves the namespace; the kernel removes it with its rules.
func (s *sandbox) close() error {
	var err error
	if s.kernel != nil {
		err = s.kernel.Close()
	}
	if s.raw != nil {
		err = errors.Join(err, s.raw.close())
	}
	return errors.Join(err, s.leave())
}

// inSandbox runs fn with a sandbox and closes it.
func inSandbox(fn func(*sandbox) error) error {
	s, err := newSandbox()
	if err != nil {
		return err
	}
	return errors.Join(fn(s), s.close())
}
