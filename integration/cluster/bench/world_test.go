package bench

import (
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/daemon/built"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel"
)

type size struct{ services, endpoints int }

// world is a control plane with many Services, and a node without pods.
type world struct {
	*clustertest.Cluster
	kernel  *kernel.Kernel // nf_tables of the node, for reading
	ns      *objects.Namespace
	filling *objects.Filling

	flags             []string // of a proxy of any kind
	kubeconfig, proxy string   // of the account that deploy/base gives to the proxy; kube-vmap
}

// newWorld creates a world, with an additional Service that has an endpoint more than the others,
// so that the chains for that many endpoints exist when a Service gains one, as they nearly
// always do in a large cluster.
func newWorld(b *testing.B, of size) *world {
	b.Helper()
	w := &world{Cluster: clustertest.Alone(b, lab.Options{})}
	w.proxy = clustertest.Program(b)
	w.kernel = labtest.Kernel(b, w.Lab.Node.Host)
	w.kubeconfig = w.Kubeconfig(b, w.Server)
	w.flags = []string{
		"--kubeconfig=" + w.kubeconfig, "--hostname-override=" + w.NodeName(w.Lab.Node),
		"--cluster-cidr=" + truth.PodRanges,
	}
	w.ns = w.Namespace(b)
	families := []model.Family{model.IPv4}
	w.filling = &objects.Filling{
		Services: of.services, Prefix: "service", Endpoints: of.endpoints, Node: "node-2", Families: families,
	}
	clustertest.Must(b, w.ns.Fill(b.Context(), w.filling))
	clustertest.Must(b, w.ns.Fill(b.Context(), &objects.Filling{
		Services: 1, Prefix: "larger", Endpoints: of.endpoints + 1, Node: "node-2", Families: families,
	}))
	return w
}

// cleanup removes kube-vmap's tables from the kernel.
func (w *world) cleanup(b *testing.B) {
	b.Helper()
	labtest.Run(b, w.Lab.Node.Host, "", w.proxy, "cleanup", "--force")
}

func (w *world) informers() *program {
	args := []string{"--kubeconfig=" + w.kubeconfig, "--node=" + w.NodeName(w.Lab.Node)}
	path := built.Informers.Path()
	return &program{world: w, name: "informers", path: path, args: args, ready: logged("synced")}
}

func (w *world) kubeVMap(name string) *program {
	return &program{world: w, name: name, path: w.proxy, args: w.flags, ready: logged("ready")}
}
