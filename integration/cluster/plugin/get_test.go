package plugin_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plugin"
)

// testGet has get, diff and bundle of nodes, also while the connection to one breaks.
func testGet(t *testing.T, c *plugin.Cluster) {
	ns := c.Namespace(t)
	_, err := ns.CreateService(clustertest.Context(t), objects.Service("web", objects.Ports(80, 8080)...))
	clustertest.Must(t, err)
	c.AwaitRules(t)
	first, last := c.Nodes[0], c.Nodes[2]

	get := func(args ...string) plugin.Output {
		return c.Kubectl(t, append([]string{"vmap", "get", "-n", ns.Name, "--no-headers"}, args...)...)
	}
	out := get("services")
	if out.Code != 0 || !strings.HasPrefix(out.Stdout, "web ") || strings.Count(out.Stdout, "\n") != 1 || !strings.Contains(out.Stderr, "Of node "+first.Name) {
		t.Error(out)
	}
	out = get("frontends", "web", "--all-nodes")
	if out.Code != 0 || strings.Count("\n"+out.Stdout, "\nall 3 nodes ") != 6 { // both families, three protocols
		t.Error(out)
	}
	if out := c.Kubectl(t, "vmap", "diff"); out.Code != 0 || out.Stdout != "" || out.Stderr != "0 of 3 nodes differ.\n" {
		t.Error(out)
	}

	t.Run("a connection is cut", func(t *testing.T) {
		last.Kubelet.CutAfter(10)
		defer last.Kubelet.CutAfter(-1)
		// The API server of 1.36 reports that as success: an empty answer would be no difference.
		for _, out := range []plugin.Output{
			c.Kubectl(t, "vmap", "diff"), get("services", "--all-nodes"), c.Kubectl(t, "vmap", "version"),
		} {
			if out.Code == 0 || !strings.Contains(out.Stderr, last.Name+": ") || !strings.Contains(out.Stderr, "1 of 3 nodes did not answer") {
				t.Error(out)
			}
		}
	})
	t.Run("a node hangs", func(t *testing.T) {
		last.Kubelet.Hang()
		defer last.Kubelet.Resume()
		out := get("services", "--all-nodes", "--node-timeout=10s")
		if out.Code != 1 || strings.Count(out.Stdout, "\n") != 2 || !strings.Contains(out.Stderr, last.Name+": no answer within 10s") {
			t.Error(out)
		}
	})
	t.Run("bundle", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "bundle.tar.gz")
		out := c.Kubectl(t, "vmap", "bundle", "-o", path)
		if out.Code != 0 || out.Stdout != path+"\n" {
			t.Error(out)
		}
		files := fileNames(t, path)
		for _, n := range c.Nodes {
			for _, name := range []string{"status.json", "rules-kernel.nft", "versions.txt"} {
				if !slices.Contains(files, "kube-vmap-bundle/"+n.Name+"/"+name) {
					t.Errorf("%s of %s is not among %v", name, n.Name, files)
				}
			}
		}
	})
}

// fileNames returns the names in an archive.
func fileNames(t *testing.T, path string) (names []string) {
	t.Helper()
	file, err := os.Open(path)
	clustertest.Must(t, err)
	defer file.Close()
	packed, err := gzip.NewReader(file)
	clustertest.Must(t, err)
	for files := tar.NewReader(packed); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		clustertest.Must(t, err)
		names = append(names, header.Name)
	}
}
