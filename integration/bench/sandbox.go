package main

import (
	"errors"
	"fmt"

	"kube-vmap/integration/lab"
	"kube-vmap/nft/kernel"
)

// sandbox is a fresh network namespace with nothing in it, and both ways to
// program it: ours and the bare one.
type sandbox struct {
	host   *lab.Host
	kernel *kernel.Kernel
	bare   *bare
	leave  func() error
}

// newSandbox makes a namespace, which must be closed.
func newSandbox() (*sandbox, error) {
	host, leave, err := lab.Alone()
	if err != nil {
		return nil, err
	}
	s := &sandbox{host: host, leave: leave}
	err = host.Do(func() (err error) { s.bare, err = newBare(); return err })
	if err == nil {
		s.kernel, err = s.open()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open nf_tables of a network namespace: %w", err), s.close())
	}
	return s, nil
}

// open is one more way to program it, as another process would have.
func (s *sandbox) open() (*kernel.Kernel, error) {
	return kernel.Open(kernel.Config{NetNS: s.host.FD()})
}

// close lets go of the namespace; the kernel removes it with its rules.
func (s *sandbox) close() error {
	var err error
	if s.kernel != nil {
		err = s.kernel.Close()
	}
	if s.bare != nil {
		err = errors.Join(err, s.bare.close())
	}
	return errors.Join(err, s.leave())
}

// inSandbox runs fn with a sandbox that is gone afterwards.
func inSandbox(fn func(*sandbox) error) error {
	s, err := newSandbox()
	if err != nil {
		return err
	}
	return errors.Join(fn(s), s.close())
}
