package cluster_test

import (
	"errors"
	"slices"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/kubeproxy"
)

// TestKubeProxyUndoesSuspension suspends the rules of a real kube-proxy. It resumes them when it
// starts, with its first sync, and in iptables mode also while it runs.
func TestKubeProxyUndoesSuspension(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		name, found string
		anySync     bool // each sync resumes them, not only the first one
	}{
		{"nftables", kubeproxy.ModeNFTables, false},
		{"iptables", kubeproxy.ModeIPTablesNFT, true},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			c := newOneNode(t, 2)
			to := c.manualService(t, "web", c.Lab.Pods[0], c.Lab.Pods[1])
			kubeconfig := c.Kubeconfig(t, c.Server)
			theirs := c.kubeProxy(t, mode.name, kubeconfig)
			if found := c.findKubeProxy(t); !slices.Equal(found.Modes(), []string{mode.found}) || len(found.Suspended()) > 0 {
				t.Errorf("found %+v", found)
			}
			c.apply(t, c.findKubeProxy(t).Suspend())
			more := c.manualService(t, "more", c.Lab.Pods[1])
			c.awaitTheirs(t, theirs, "more", more)
			found := c.findKubeProxy(t)
			if awake := len(found.Suspended()) == 0; awake != mode.anySync {
				t.Errorf("after a sync, awake are %v, suspended %v", found.Awake(), found.Suspended())
			}
			theirs.Kill()
			c.apply(t, found.Suspend())
			c.kubeProxy(t, mode.name, kubeconfig)
			if found := c.findKubeProxy(t); len(found.Suspended()) > 0 || len(found.Awake()) == 0 {
				t.Errorf("after a restart, found %+v", found)
			}
			checkAnswered(t, c.clients, to, "pod-1", "pod-2")
		})
	}
}

func (c *oneNode) findKubeProxy(t *testing.T) *kubeproxy.Found {
	t.Helper()
	found, err := kubeproxy.Find(c.Lab.Node.FD())
	clustertest.Must(t, err)
	return found
}

// apply commits a batch on the node.
func (c *oneNode) apply(t *testing.T, b nft.Batch) {
	t.Helper()
	k, err := kernel.Open(kernel.Config{NetNS: c.Lab.Node.FD()})
	clustertest.Must(t, err)
	_, err = k.Apply(b)
	clustertest.Must(t, errors.Join(err, k.Close()))
}
