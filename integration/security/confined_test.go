package security

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// launch runs the proxy with the confinement of its container. It does not set sysctls, which the
// init container does.
func launch(t *testing.T, l *lab.Lab, f *daemon.Folder, flags ...string) *daemon.Daemon {
	t.Helper()
	d := daemon.Launch{
		Node: l.Node, Folder: f, By: []string{os.Args[0], confined},
		Flags: append([]string{
			"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s",
		}, flags...),
	}.Start(t)
	d.AwaitMessage("ready")
	return d
}

func status(t *testing.T, pid int, field string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + field + `:\s*(.*)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("no %s in\n%s", field, text)
	}
	return string(found[1])
}

// TestNetAdminAndReadOnlyRootSuffice runs the proxy as its manifest does: with only
// CAP_NET_ADMIN, no way to gain more, and a read-only file system.
func TestNetAdminAndReadOnlyRootSuffice(t *testing.T) {
	if err := unix.MountSetattr(-1, "", 0, &unix.MountAttr{}); errors.Is(err, unix.ENOSYS) {
		t.Skip("this kernel makes no whole tree of mounts read-only (Linux 5.12)")
	}
	l, f := newLab(t)
	s := balanced(l, "web", 1, 30081)
	f.Put("web", s)
	d := launch(t, l, f, "--nodeport-addresses=primary,localhost")
	for field, want := range map[string]string{
		"CapEff": fmt.Sprintf("%016x", 1<<unix.CAP_NET_ADMIN), "CapBnd": fmt.Sprintf("%016x", 1<<unix.CAP_NET_ADMIN),
		"CapInh": fmt.Sprintf("%016x", 0), "NoNewPrivs": "1",
	} {
		if got := status(t, d.PID(), field); got != want {
			t.Errorf("%s is %s, want %s", field, got, want)
		}
	}
	late := second(l, "late", 2)
	d.After(func() { f.Put("late", late) })
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		for _, from := range clients(l) {
			answered(t, from, w, s.ClusterAddrPort(w.Family), "pod-2")
			answered(t, from, w, s.AddrPort(l.Node, w.Family, model.KindNodePort, 0), "pod-2")
			answered(t, from, w, late.ClusterAddrPort(w.Family), "pod-2")
		}
	})
	for _, family := range model.Families {
		page, err := l.Outside.Get("http://"+l.Node.AddrPort(family, 30081).String(), answer)
		if err != nil || !strings.Contains(page, `"localEndpoints": 1`) {
			t.Errorf("the health check responds %q, %v", page, err)
		}
	}
	onlyWritesItsLog(t, d.PID())
}

// TestKubeProxyOfAnotherNamespaceIsNotThisNodes has a process named kube-proxy in a pod, whose
// network namespace a proxy without its privileges cannot read.
func TestKubeProxyOfAnotherNamespaceIsNotThisNodes(t *testing.T) {
	l, f := newLab(t)
	program, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(t.TempDir(), "kube-proxy")
	if err := os.Symlink(program, named); err != nil {
		t.Fatal(err)
	}
	other := l.Pods[0].Command(t.Context(), named, "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Wait() }) // it is killed
	d := launch(t, l, f)                   // whose log has no warning
	d.AwaitMessage("a kube-proxy runs whose network namespace cannot be read; it is not counted as this node's")
}

// onlyWritesItsLog checks which files a process has open for writing.
func onlyWritesItsLog(t *testing.T, pid int) {
	t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) < 3 {
		t.Fatalf("open files %v, %v", fds, err)
	}
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		info, e := os.Lstat(fd) // the link's mode shows how the file was opened
		if err != nil || e != nil || !filepath.IsAbs(target) || target == os.DevNull {
			continue // a socket or another object without a name
		}
		if info.Mode()&0o200 != 0 {
			t.Errorf("%s is open for writing", target)
		}
	}
}
