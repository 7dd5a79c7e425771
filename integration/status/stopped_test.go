package status

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

// TestStoppedProcessIsNotWaitedFor stops a daemon with SIGSTOP, like a cgroup freezer or a
// debugger.
func TestStoppedProcessIsNotWaitedFor(t *testing.T) {
	l := newLab(t)
	f := daemon.NewFolder(t, l)
	web := daemon.Service{Name: "web", Number: 1}
	f.Put("web", web)
	file := filepath.Join(t.TempDir(), "pid")
	d := daemon.Launch{Node: l.Node, Folder: f, By: []string{"sh", "-c", `echo $$ > ` + file + `; exec "$@"`, "sh"}}.Start(t)
	d.AwaitMessage("ready")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	defer signal(syscall.SIGCONT) // a stopped process does not end
	const most = 15 * time.Second // half of what it was
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"get", "svc"}, 1, "no response on @kube-vmap within 5s"},
		{[]string{"get", "svc"}, 1, "--kernel reads the kernel's tables"},
		{[]string{"get", "svc", "--kernel"}, 0, "web"},
		{[]string{"top"}, 1, "no response on @kube-vmap within 5s"},
		{[]string{"render", "--kernel"}, 0, "table ip kube-vmap"},
		{
			[]string{"explain", "--from", l.Pods[0].Addr(model.IPv4).String(), "--to", web.AddrPort(l.Node, model.IPv4, model.KindClusterIP, 0).String()},
			1, "no response on @kube-vmap within 3s",
		},
		{[]string{"bundle", "-o", filepath.Join(t.TempDir(), "archive")}, 0, "status.json"}, // named as skipped
	} {
		start := time.Now()
		out := run(t, l.Node.Host, 0, tc.args...)
		if took := time.Since(start); out.code != tc.code || !strings.Contains(out.stdout+out.stderr, tc.says) || took > most {
			t.Errorf("%q in %s: exit code %d, want %d with %q: %s%s", tc.args, took, out.code, tc.code, tc.says, out.stdout, out.stderr)
		}
	}
}
