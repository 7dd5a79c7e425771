package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
)

// TestExpectedRulesEqualThoseOfManifests compares the expected rules with those that
// kube-vmap programs for manifests of the API's objects, as kubectl prints them.
func TestExpectedRulesEqualThoseOfManifests(t *testing.T) {
	t.Parallel()
	program := clustertest.Program(t) // before any time limit
	c := clustertest.Alone(t, lab.Options{Pods: 2, RemotePods: 1}, "zone-a", "zone-b")
	ctx := clustertest.Context(t)
	ns := c.Namespace(t)
	_, err := ns.CreateService(ctx, objects.Service("web", objects.Ports(80, 8080)...))
	clustertest.Must(t, err)
	w := ns.NewWorkload("web", c.Places()...)
	clustertest.Must(t, w.Scale(ctx, 2))
	clustertest.Must(t, ns.AwaitEndpoints(ctx, "web", 2))
	_, err = ns.CreateService(ctx, objects.Service("none", objects.Ports(80, 8080)...))
	clustertest.Must(t, err)

	manifests, err := c.Kubectl(ctx, "get", "services,endpointslices,servicecidrs,nodes", "-A", "-o", "yaml")
	clustertest.Must(t, err)
	dir := t.TempDir()
	clustertest.Must(t, os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(manifests), 0o644))
	node := c.NodeName(c.Lab.Node)
	d := clustertest.Start(t, process.Config{Program: program, Host: c.Lab.Node.Host, Args: []string{
		"--manifests", dir, "--hostname-override", node, "--cluster-cidr", truth.PodRanges,
	}})
	_, err = d.AwaitLog(ctx, 0, "the first batch", process.Message("ready"))
	clustertest.Must(t, err)

	is := truth.Truth{Client: c.Client, Config: truth.Config(node), Host: c.Lab.Node.Host}
	clustertest.Must(t, is.Await(ctx))
	clustertest.Must(t, w.Scale(ctx, 3))
	clustertest.Must(t, ns.AwaitEndpoints(ctx, "web", 3))
	diff, err := is.Diff(ctx)
	clustertest.Must(t, err)
	if gone := c.Places()[2].Addrs[0].String(); !strings.Contains(diff, gone) {
		t.Errorf("the kernel does not know %s, and the difference is\n%s", gone, diff)
	} else {
		t.Logf("a difference:\n%s", diff)
	}
}
