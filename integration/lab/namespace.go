package lab

import (
	"fmt"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespace is a network namespace. A file descriptor keeps it alive. The kernel removes it,
// with its links, when its last socket and process are gone.
type namespace struct{ fd netns.NsHandle }

// newNamespace creates a network namespace. The caller must close it.
func newNamespace() (*namespace, error) {
	ns := &namespace{fd: netns.None()}
	err := onThread(
		func() error { return unix.Unshare(unix.CLONE_NEWNET) },
		func() (err error) { ns.fd, err = netns.Get(); return err },
	)
	if err != nil {
		return nil, fmt.Errorf("create network namespace: %w", err)
	}
	return ns, nil
}

// do runs fn on a thread in the namespace.
func (n *namespace) do(fn func() error) error {
	return onThread(func() error {
		if err := netns.Set(n.fd); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return nil
	}, fn)
}

func (n *namespace) close() error { return n.fd.Close() }
