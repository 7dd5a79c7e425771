package bench

import (
	"fmt"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/model"
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
