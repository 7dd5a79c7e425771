package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/applyconfigurations/coordination/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/daemon/built"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft/kernel"
)

const (
	services = 20
	// The port of Services, and that of their Pods.
	port       = 80
	targetPort = 8080
)

// rig is a cluster of three nodes with all Services, and one kind of proxy.
type rig struct {
	testing.TB
	*clustertest.Cluster
	clients []*traffic.Client
	targets []traffic.Target

	server   *lab.Cmd      // of the pods on node-3
	backlogs []lab.Backlog // their listeners
	silence  func() error  // ends the kubelet on node-3
}

// newRig builds a cluster with a client on node-1 and node-2, beside the pods of Services.
func newRig(t testing.TB) *rig {
	t.Helper()
	l := labtest.New(t, lab.Options{Pods: services + 1, RemotePods: services + 1, ThirdPods: services})
	r := &rig{TB: t, Cluster: clustertest.AloneIn(t, l, plane.Options{
		Host: l.Outside, ControllerManagerFlags: []string{"--controllers=node-lifecycle-controller"}, // added to others
	})}
	for _, n := range l.Nodes() {
		r.silence = r.startKubelet(n) // that of node-3 is the last
	}
	for _, pods := range [][]*lab.Pod{l.Pods, l.RemotePods} {
		r.clients = append(r.clients, traffic.From(pods[services].Host))
		for _, p := range pods[:services] {
			_, err := p.Serve(model.TCP, targetPort)
			clustertest.Must(t, err)
		}
	}
	clustertest.Must(t, r.serveApart(l.ThirdPods))
	ns := r.Namespace(t)
	for i := range services {
		r.targets = append(r.targets, r.service(ns, i))
	}
	return r
}

// service creates a Service and its Pods, the i-th of each node.
func (r *rig) service(ns *objects.Namespace, i int) traffic.Target {
	r.Helper()
	ctx, name := clustertest.Context(r), fmt.Sprintf("web-%d", i+1)
	for _, p := range r.pods(i) {
		_, err := ns.CreatePod(ctx, fmt.Sprintf("%s-%s", name, p.Node()), name, r.At(p))
		clustertest.Must(r, err)
	}
	s, err := ns.CreateService(ctx, objects.Service(name, objects.Port(model.TCP, port, targetPort)))
	clustertest.Must(r, err)
	clustertest.Must(r, ns.AwaitEndpoints(ctx, name, len(r.pods(i))))
	return traffic.Service(s, port)
}

// pods returns the i-th pod of each node.
func (r *rig) pods(i int) []*lab.Pod {
	return []*lab.Pod{r.Lab.Pods[i], r.Lab.RemotePods[i], r.Lab.ThirdPods[i]}
}

// proxy is a program that translates the addresses of Services.
type proxy struct {
	program func(testing.TB) string
	flags   []string
}

var (
	kubeProxy = proxy{kubeProxyPath, kubeProxyFlags}
	avoiding  = proxy{clustertest.Program, []string{"--passive-health-checks=avoid"}}
)

func kubeProxyPath(t testing.TB) string {
	t.Helper()
	path, err := plane.Program("kube-proxy")
	clustertest.Must(t, err)
	return path
}

// start starts a proxy on every node, and waits until each client had answers of all endpoints.
func (r *rig) start(p proxy) {
	r.Helper()
	kubeconfig := r.Kubeconfig(r, r.Server)
	for _, n := range r.Lab.Nodes() {
		name := r.NodeName(n)
		d := clustertest.Start(r, process.Config{Program: p.program(r), Host: n.Host, Args: append([]string{
			"--kubeconfig=" + kubeconfig, "--hostname-override=" + name, "--cluster-cidr=" + truth.PodRanges,
		}, p.flags...)})
		clustertest.Must(r, d.AwaitHealthy(clustertest.Context(r)))
	}
	for i := range r.targets {
		for _, c := range r.clients {
			r.await(c, i)
		}
	}
}

// await waits until all endpoints of the i-th Service have answered a client, over each family.
func (r *rig) await(c *traffic.Client, i int) {
	r.Helper()
	var names []string
	for _, p := range r.pods(i) {
		names = append(names, p.Name)
	}
	for _, w := range traffic.Over(model.TCP) {
		clustertest.Must(r, eventually.Try(clustertest.Context(r), func() error {
			return c.AnsweredOver(w, r.targets[i], names...)
		}))
	}
}

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

// heartbeat is how often a kubelet renews the lease of its node.
const heartbeat = 10 * time.Second

// startKubelet renews the lease of a node, until the returned function is called, which renews it
// for the last time: how long the node controller waits after a fault then differs by its own
// period only.
func (r *rig) startKubelet(n *lab.Node) (stop func() error) {
	ctx, cancel := context.WithCancel(r.Context())
	r.Cleanup(cancel)
	go func() {
		for ticker := time.Tick(heartbeat); ctx.Err() == nil; {
			if err := r.renew(ctx, n); err != nil && ctx.Err() == nil {
				r.Log(err)
			}
			select {
			case <-ctx.Done():
			case <-ticker:
			}
		}
	}()
	return func() error { cancel(); return r.renew(r.Context(), n) }
}

func (r *rig) renew(ctx context.Context, n *lab.Node) error {
	lease := coordinationv1.Lease(r.NodeName(n), corev1.NamespaceNodeLease).
		WithSpec(coordinationv1.LeaseSpec().WithRenewTime(metav1.NowMicro()))
	_, err := r.Client.CoordinationV1().Leases(*lease.Namespace).
		Apply(ctx, lease, metav1.ApplyOptions{FieldManager: "kubelet"})
	if err != nil {
		return fmt.Errorf("renew the lease of %s: %w", n, err)
	}
	return nil
}

// answer is the first argument of the process that serves for the pods of node-3. The others are
// the names of the pods, whose listeners it inherits in the same order.
const answer = "answer"

// serve answers for pods until it is killed.
func serve(pods []string) error {
	var group errgroup.Group
	for i, name := range pods {
		const inherited = 3 // the first descriptor after stderr
		l, err := net.FileListener(os.NewFile(uintptr(inherited+i), name))
		if err != nil {
			return err
		}
		group.Go(func() error { return lab.AnswerOn(l, name) })
	}
	return group.Wait()
}

// serveApart serves for the pods of node-3 in a process of its own, which can be stopped.
func (r *rig) serveApart(pods []*lab.Pod) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	r.server = r.Lab.Third.Command(r.Context(), program, answer)
	for _, p := range pods {
		b, err := p.Backlog(targetPort)
		if err != nil {
			return err
		}
		file, err := b.File()
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // the process has its own
		r.backlogs = append(r.backlogs, b)
		r.server.Args, r.server.ExtraFiles = append(r.server.Args, p.Name), append(r.server.ExtraFiles, file)
	}
	r.server.Stderr = os.Stderr
	if err := r.server.Start(); err != nil {
		return err
	}
	r.Cleanup(func() {
		_ = r.server.Process.Kill()
		_ = r.server.Wait() // that it was killed
	})
	return nil
}
