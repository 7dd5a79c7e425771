package matrix

import (
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/sync/cluster/apitest"
)

// kubeProxy is the path of the judge, if it is wanted: a kube-proxy which all
// tests are about instead of kube-vmap, to see whether they are right.
var kubeProxy = os.Getenv("KUBE_VMAP_JUDGE")

// api is the API server for the judge, which reads no manifests.
type api struct {
	*apitest.Server
	files map[string]map[string]apitest.Object // by what they are
}

// apiAddress is where the API server listens, in the node's network namespace.
const apiAddress = "127.0.0.1:6443"

// newAPI makes an API server on the node, if it is wanted.
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

// write tells the API what a file says now.
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

// judge is the program with the flags that make it a proxy for node-1 which
// leaves the machine alone.
func judge() (program string, args []string) {
	return kubeProxy, []string{
		"--master=http://" + apiAddress, "--hostname-override=node-1", "--proxy-mode=nftables",
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
		"--iptables-min-sync-period=10ms",
	}
}
