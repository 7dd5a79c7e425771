package cluster_test

import (
	"net/netip"
	"slices"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/model"
	"kube-vmap/sync/cluster"
)

// TestKubeletOfANodeIsKnown asks with the permissions of a proxy, for the node and for one that does
// not exist.
func TestKubeletOfANodeIsKnown(t *testing.T) {
	t.Parallel()
	c, ctx := newOneNode(t, 1), clustertest.Context(t)
	ofProxy, err := clientcmd.LoadFromFile(c.Kubeconfig(t, c.Server))
	clustertest.Must(t, err)
	client, err := cluster.ClientFor(c.ConfigWithToken(ofProxy.AuthInfos[ofProxy.Contexts[ofProxy.CurrentContext].AuthInfo].Token))
	clustertest.Must(t, err)
	var want []netip.AddrPort
	for _, f := range model.Families {
		want = append(want, c.Lab.Node.AddrPort(f, 10250))
	}
	got, err := client.Kubelet(ctx, c.NodeName(c.Lab.Node))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("kubelet at %v, %v, want %v", got, err, want)
	}
	if got, err := client.Kubelet(ctx, "no-such-node"); err == nil {
		t.Errorf("kubelet of a node that does not exist at %v", got)
	}
}
