package matrix

import (
	"os"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/process"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

// run starts the proxy under test on node-1, and returns a function that stops it.
// Its rules remain. The end of the test stops it, if the test does not.
func (s *scene) run(flags ...string) (stop func()) {
	s.t.Helper()
	if kubeProxy == "" {
		d := daemon.Launch{Node: s.Node, Folder: s.folder, Flags: append([]string{"-v=2"}, flags...), NoPodRanges: true, Problems: true}.Start(s.t)
		return d.Stop
	}
	p, err := process.Start(s.t.Context(), process.Config{Program: kubeProxy, Args: append(kubeProxyFlags(), flags...), Host: s.Node.Host})
	s.must(err)
	stop = func() { _ = p.Stop() } // kube-proxy does not end with exit code 0
	s.t.Cleanup(func() {
		stop()
		if s.t.Failed() {
			s.t.Logf("the end of kube-proxy's log:\n%s", p.Log.Tail())
		}
	})
	return stop
}
