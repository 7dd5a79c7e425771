package security

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon"
)

// TestMain runs the tests or, if the first argument is [confined], another program.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == confined {
		_, _ = fmt.Fprintln(os.Stderr, "confine:", confine(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(daemon.Main(m))
}

// confined, as the first argument, makes this program execute the program that follows with the
// confinement of the container in base/daemonset.yaml.
const confined = "--confined"

// confine confines the process as the manifest does the container, and executes a
// program.
func confine(line []string) error {
	runtime.LockOSThread() // the confinement is the thread's; exec applies it to the process
	if err := readOnly(); err != nil {
		return fmt.Errorf("make the file system read-only: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return syscall.Exec(line[0], line, []string{})
}

// readOnly makes all mounts read-only for this process only.
func readOnly() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_RDONLY, Propagation: unix.MS_PRIVATE,
	})
}

// dropCapabilities drops all capabilities but CAP_NET_ADMIN.
func dropCapabilities() error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if c == unix.CAP_NET_ADMIN {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL { // unknown to this kernel
			return err
		}
	}
	const netAdmin = 1 << unix.CAP_NET_ADMIN
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	only := [2]unix.CapUserData{{Effective: netAdmin, Permitted: netAdmin}}
	return unix.Capset(&header, &only[0])
}
