package status

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
)

// TestOnlyRootIsAnswered asks as another user, on an abstract name and on a path.
func TestOnlyRootIsAnswered(t *testing.T) {
	l := newLab(t)
	f := daemon.NewFolder(t, l)
	f.Put("web", daemon.Service{Name: "web", Number: 1})
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // so that the folder does not refuse it
		t.Fatal(err)
	}
	for _, socket := range []string{"@kube-vmap", filepath.Join(dir, "status.sock")} {
		d := daemon.Start(t, l.Node, f, "--status-socket", socket)
		args := []string{"get", "services", "--status-socket", socket}
		if out := run(t, l.Node.Host, 0, args...); out.code != 0 || !strings.Contains(out.stdout, "web") {
			t.Errorf("%s: root gets %+v", socket, out)
		}
		out := run(t, l.Node.Host, otherUser, args...)
		if out.code != 1 || out.stdout != "" || !strings.Contains(out.stderr, "only root") || strings.Contains(out.stderr, "kernel") {
			t.Errorf("%s: another user gets %+v", socket, out)
		}
		d.Stop()
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 || err != nil {
		t.Errorf("after the end there are %v, %v", left, err)
	}
}

// TestSocketsOfTwoNodesAreSeparate checks the default name.
func TestSocketsOfTwoNodesAreSeparate(t *testing.T) {
	l := newLab(t)
	for node, name := range map[*lab.Node]string{l.Node: "here", l.Remote: "there"} {
		f := daemon.NewFolder(t, l)
		f.Put(name, daemon.Service{Name: name, Number: 1})
		daemon.Start(t, node, f)
	}
	for node, name := range map[*lab.Node]string{l.Node: "here", l.Remote: "there"} {
		if got := get(t, node.Host, "services", "-A", "-o", "name").stdout; got != "service/"+name+"\n" {
			t.Errorf("%s has %q, want %s", node, got, name)
		}
	}
}

// TestSocketIsTakenWhenItBecomesFree runs a second daemon on a node, with an abstract name and
// with a path that the first daemon leaves behind when it is killed.
func TestSocketIsTakenWhenItBecomesFree(t *testing.T) {
	for _, socket := range []string{"@kube-vmap", filepath.Join(t.TempDir(), "status.sock")} {
		l := newLab(t)
		flags := []string{"--status-socket", socket, "--protect-tables=false", "--metrics-bind-address=", "--healthz-bind-address="}
		start := func(name string) *daemon.Daemon {
			f := daemon.NewFolder(t, l)
			f.Put(name, daemon.Service{Name: name, Number: 1})
			d := daemon.Launch{Node: l.Node, Folder: f, Flags: flags}.Start(t)
			for _, m := range []string{"cannot serve, retrying", "repaired tables changed by another program", "change refused, reading the kernel again"} {
				d.Ignore(m)
			}
			d.AwaitMessage("ready")
			return d
		}
		who := func() string {
			return run(t, l.Node.Host, 0, "get", "svc", "-A", "-o", "name", "--status-socket", socket).stdout
		}
		first := start("first")
		second := start("second")
		second.AwaitMessage("cannot serve, retrying")
		if got := who(); got != "service/first\n" {
			t.Errorf("%s: beside a second one, the first is asked and says %q", socket, got)
		}
		first.Kill()
		second.AwaitMessage("serving")
		deadline := time.Now().Add(20 * time.Second)
		for who() != "service/second\n" {
			if time.Now().After(deadline) {
				t.Fatalf("%s: after the end of the first, %q", socket, who())
			}
		}
	}
}
