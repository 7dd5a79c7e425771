package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namesDir is the folder of named network namespaces of iproute2.
const namesDir = "/run/netns"

// namespace is a network namespace. A file descriptor keeps it alive, and its mount in
// namesDir if it has a name.
type namespace struct {
	fd   netns.NsHandle
	name string // empty if it has none
}

// newNamespace creates a network namespace. The caller must close it.
func newNamespace(name string) (*namespace, error) {
	ns := &namespace{fd: netns.None()}
	err := onThread(
		func() error { return unix.Unshare(unix.CLONE_NEWNET) },
		func() (err error) { ns.fd, err = netns.Get(); return err },
	)
	if err != nil {
		return nil, fmt.Errorf("create network namespace: %w", err)
	}
	if name == "" {
		return ns, nil
	}
	if err := ns.mount(name); err != nil {
		return nil, errors.Join(fmt.Errorf("name network namespace %s: %w", name, err), ns.close())
	}
	return ns, nil
}

func (n *namespace) mount(name string) error {
	if err := os.MkdirAll(namesDir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(namesDir, name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	_ = file.Close()
	source := fmt.Sprintf("/proc/self/fd/%d", int(n.fd))
	if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	n.name = name
	return nil
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

// close releases the namespace. The kernel removes it, with its links, when its last
// socket and process are gone.
func (n *namespace) close() error {
	err := n.fd.Close()
	if n.name != "" {
		err = errors.Join(err, netns.DeleteNamed(n.name))
		n.name = ""
	}
	return err
}

// fullName returns the name of a host's namespace for `ip netns`. It contains the
// process id, so that labs of several processes do not collide.
func fullName(prefix, host string) string {
	if prefix == "" {
		return ""
	}
	return fmt.Sprintf("%s-%d-%s", prefix, os.Getpid(), host)
}

// sweep removes named namespaces with this prefix whose process ended without
// cleaning up.
func sweep(prefix string) error {
	entries, err := os.ReadDir(namesDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list old network namespaces: %w", err)
	}
	for _, e := range entries {
		if !abandoned(e.Name(), prefix) {
			continue
		}
		if err := netns.DeleteNamed(e.Name()); err != nil {
			return fmt.Errorf("remove old network namespace %s: %w", e.Name(), err)
		}
	}
	return nil
}

// abandoned reports whether a name belongs to a lab whose process is gone.
func abandoned(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix+"-")
	if !ok {
		return false
	}
	pid, _, ok := strings.Cut(rest, "-")
	n, err := strconv.Atoi(pid)
	return ok && err == nil && errors.Is(unix.Kill(n, 0), unix.ESRCH)
}
