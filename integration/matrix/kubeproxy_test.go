package matrix

import (
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/sync/source/cluster/apitest"
)

// kubeProxy is the path of a kube-proxy to test instead of kube-vmap, which shows
// whether the tables are right; see the package's documentation.
var kubeProxy = os.Getenv("KUBE_VMAP_MATRIX_KUBE_PROXY")

// api is an API server for kube-proxy, which reads no manifests.
type api struct {
	*apitest.Server
	files map[string]map[string]apitest.Object // by file, and by kind and name
}

// apiAddress is the address of the API server in the node's network namespace.
const apiAddress = "127.0.0.1:6443"

// newAPI starts an API server on the node, if kube-proxy is tested.
func newAPI(t *testing.T, node *lab.Host) *api {
	t.Helper()
	if kubeProxy == "" {
		return nil
	}
	var l net.Listener
	err := node.Do(func() (err error) { l, err = net.Listen("tcp", apiAddress); return err })
	if err != nil {
		t.Fatal(err)
	}
	a := &api{Server: apitest.New(), files: map[string]map[string]apitest.Object{}}
	server := &http.Server{Handler: a}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return a
}

// write applies the objects of a file to the API, and deletes those that the file
// contained before.
func (a *api) write(name string, objects []any) {
	if a == nil {
		return
	}
	now := map[string]apitest.Object{}
	for _, o := range objects {
		object := o.(apitest.Object)
		kind := object.GetObjectKind().GroupVersionKind().Kind
		now[kind+"/"+object.GetName()] = object
		a.Put(object)
	}
	gone := maps.Clone(a.files[name])
	maps.DeleteFunc(gone, func(key string, _ apitest.Object) bool { return now[key] != nil })
	a.Delete(slices.Collect(maps.Values(gone))...)
	a.files[name] = now
}

// kubeProxyFlags returns flags that make kube-proxy a proxy for node-1 which does
// not change settings of the machine.
func kubeProxyFlags() []string {
	return []string{
		"--master=http://" + apiAddress, "--hostname-override=node-1", "--proxy-mode=nftables",
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
		"--iptables-min-sync-period=10ms",
	}
}

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
