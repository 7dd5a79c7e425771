package diagnosis

import (
	"os"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
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
