package security

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
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

// answer is how long a response may take on a busy machine.
const answer = 5 * time.Second

// newLab returns a lab with two pods, of which the second serves all protocols, and a folder of
// manifests.
func newLab(t *testing.T) (*lab.Lab, *daemon.Folder) {
	t.Helper()
	t.Parallel()
	l := labtest.New(t, lab.Options{Pods: 2})
	daemon.Serve(t, 1, l.Pods[1])
	return l, daemon.NewFolder(t, l)
}

func second(l *lab.Lab, name string, number int) daemon.Service {
	return daemon.Service{Name: name, Number: number, Endpoints: []*lab.Host{l.Pods[1].Host}}
}

// balanced returns a Service of the second pod for load balancers, with a health check node port.
func balanced(l *lab.Lab, name string, number int, port int32) daemon.Service {
	s := second(l, name, number)
	s.Kinds, s.LocalOutside = []model.Kind{model.KindNodePort, model.KindLoadBalancerIP}, true
	s.Edit = func(o *corev1.Service) { o.Spec.HealthCheckNodePort = port }
	return s
}

// externalIPs returns an edit that claims addresses.
func externalIPs(addrs ...netip.Addr) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for _, a := range addrs {
			s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, a.String())
		}
	}
}

func addrsOf(h *lab.Host) []netip.Addr { return []netip.Addr{h.Addr(model.IPv4), h.Addr(model.IPv6)} }

func clients(l *lab.Lab) []*lab.Host { return []*lab.Host{l.Pods[0].Host, l.Node.Host, l.Outside} }

// answered checks that the host of that name responds.
func answered(t *testing.T, from *lab.Host, w daemon.Transport, to netip.AddrPort, by string) {
	t.Helper()
	got, err := from.Ask(w.Protocol, to, answer)
	if err != nil || got.By != by {
		t.Errorf("%s asks %s over %s: %s, %v; want a response of %q", from, to, w, got, err, by)
	}
}

// refused checks that a connection is refused, not dropped.
func refused(t *testing.T, from *lab.Host, w daemon.Transport, to netip.AddrPort) {
	t.Helper()
	got, err := from.Ask(w.Protocol, to, answer)
	if err != nil || got.Outcome != lab.Refused {
		t.Errorf("%s asks %s over %s: %s, %v; want it refused", from, to, w, got, err)
	}
}
