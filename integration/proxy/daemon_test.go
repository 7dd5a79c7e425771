package proxy

import (
	"os"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// answer is the timeout for what must be answered: packets do not wait for
	// anything.
	answer = 5 * time.Second
	// silence is how long to wait for an answer that must not come.
	silence = 120 * time.Millisecond
)

// newScene creates a lab of three pods and one on another node, and a folder with the objects of
// the cluster.
func newScene(t *testing.T) (*lab.Lab, *daemon.Folder) {
	t.Helper()
	t.Parallel()
	l, _ := daemon.NewLab(t, 3, 1)
	return l, daemon.NewFolder(t, l)
}

// start runs kube-vmap on the folder until it is ready. Warnings are allowed.
func start(t *testing.T, l *lab.Lab, f *daemon.Folder, flags ...string) *daemon.Daemon {
	t.Helper()
	d := daemon.Launch{Node: l.Node, Folder: f, Flags: flags, Problems: true}.Start(t)
	d.AwaitMessage("ready")
	return d
}

// generation returns the number of changes of nf_tables on node-1.
func generation(t *testing.T, l *lab.Lab) uint32 {
	t.Helper()
	g, err := labtest.Kernel(t, l.Node.Host).Generation()
	if err != nil {
		t.Fatal(err)
	}
	return g
}
