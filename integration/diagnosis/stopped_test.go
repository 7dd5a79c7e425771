package diagnosis

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

// answer is how long a response may take on a busy machine.
const answer = 5 * time.Second

// A scene is a lab with servers on all hosts.
type scene struct {
	*lab.Lab
	t       *testing.T
	servers []*lab.Host // pods of the node, then remote ones
	folder  *daemon.Folder
	ledger  *ledger
}

func newScene(t *testing.T, pods, remote int) *scene {
	t.Helper()
	t.Parallel()
	s := &scene{Lab: labtest.New(t, lab.Options{Pods: pods, RemotePods: remote}), t: t}
	daemon.RouteServices(t, s.Lab, s.Node)
	s.servers = daemon.Serve(t, 1, append(s.Pods[:pods:pods], s.RemotePods...)...)
	if err := s.Node.ServeAll(daemon.TargetPort); err != nil {
		t.Fatal(err)
	}
	s.ledger = newLedger(append(s.servers[:len(s.servers):len(s.servers)], s.Node.Host)...)
	s.folder = daemon.NewFolder(t, s.Lab)
	return s
}

func (s *scene) run(args ...string) daemon.Output {
	s.t.Helper()
	return daemon.Run(s.t, s.Node.Host, args...)
}

// prints runs a command, which must work, and returns what it prints.
func (s *scene) prints(args ...string) string {
	s.t.Helper()
	out := s.run(args...)
	if out.ExitCode != 0 {
		s.t.Fatalf("%q: %v", args, out)
	}
	return out.Stdout + out.Stderr
}

// TestStoppedProcessIsNotWaitedFor stops a daemon with SIGSTOP, like a cgroup freezer or a
// debugger.
func TestStoppedProcessIsNotWaitedFor(t *testing.T) {
	r := newScene(t, 1, 0)
	web := daemon.Service{Name: "web", Number: 1}
	r.folder.Put("web", web)
	d := daemon.Start(t, r.Node, r.folder)
	if err := d.Signal(syscall.SIGSTOP); err != nil { // SIGKILL ends it
		t.Fatal(err)
	}
	const most = 20 * time.Second // less than any other request may take
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"status"}, 2, "no response on @kube-vmap within 8s: the process that holds it is stopped"},
		{[]string{"get", "svc", "--kernel"}, 0, "web"},
		{
			[]string{"explain", "--from", r.Pods[0].Addr(model.IPv4).String(), "--to", web.ClusterAddrPort(model.IPv4).String()},
			1, "no response on @kube-vmap within 6s",
		},
	} {
		start := time.Now()
		out := r.run(tc.args...)
		if took := time.Since(start); out.ExitCode != tc.code || !strings.Contains(out.Stdout+out.Stderr, tc.says) || took > most {
			t.Errorf("%q in %s: exit code %d, want %d with %q: %s%s", tc.args, took, out.ExitCode, tc.code, tc.says, out.Stdout, out.Stderr)
		}
	}
}
