package proxy

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// answer is the timeout for what must be answered: packets do not wait for
	// anything.
	answer = 5 * time.Second
	// silence is how long to wait for an answer that must not come.
	silence = 120 * time.Millisecond
)

// newLab creates a lab of three pods, of which the last serves nothing, and one on
// another node.
func newLab(t *testing.T) *lab.Lab {
	t.Helper()
	t.Parallel()
	l := labtest.New(t, lab.Options{Pods: 3, RemotePods: 1})
	for _, h := range servers(l) {
		if err := h.ServeAll(daemon.TargetPort); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// newScene creates a lab, a folder without manifests, and a watcher of node-1.
func newScene(t *testing.T) (*lab.Lab, *daemon.Folder, *watcher) {
	t.Helper()
	l := newLab(t)
	return l, daemon.EmptyFolder(t, l), watch(t, l.Node.Host)
}

// writeCluster adds the ServiceCIDR, and node-1 in zone a.
func writeCluster(f *daemon.Folder, l *lab.Lab) {
	f.WriteObjects("cluster", daemon.ServiceCIDR(), daemon.NodeObject(l.Node, "a"))
}

// servers returns the pods that serve.
func servers(l *lab.Lab) []*lab.Host {
	return []*lab.Host{l.Pods[0].Host, l.Pods[1].Host, l.RemotePods[0].Host}
}

// start runs kube-vmap on the folder, with these flags and no others.
func start(t *testing.T, node *lab.Node, f *daemon.Folder, flags ...string) *daemon.Daemon {
	t.Helper()
	return launch(daemon.Launch{Node: node, Folder: f}, flags).Start(t)
}

func launch(l daemon.Launch, flags []string) daemon.Launch {
	l.Flags, l.NoPodRanges, l.Problems = append([]string{"-v=2"}, flags...), true, true
	return l
}

// startAndSettle is start, and waits until the kernel has the rules.
func startAndSettle(t *testing.T, w *watcher, l *lab.Lab, f *daemon.Folder, flags ...string) *daemon.Daemon {
	t.Helper()
	d := start(t, l.Node, f, flags...)
	w.settles(f, flags...)
	return d
}

// clusterIP returns the ClusterIP of the n-th Service.
func clusterIP(f model.Family, n int) netip.Addr {
	return daemon.Service{Number: n}.Addr(f, model.KindClusterIP)
}
