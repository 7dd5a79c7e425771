// Package faults has faults of a cluster that users report, and the command of kubectl vmap that finds
// each.
package faults

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	stdsync "sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plugin"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/daemon/built"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

func TestMain(m *testing.M) { clustertest.Main(m, built.Plugin) }

// TestOneCommandFindsEachFault sets up all faults in one cluster, in a namespace each,
// checks with packets that they are there, and runs the command of each.
func TestOneCommandFindsEachFault(t *testing.T) {
	c := plugin.New(t, podsPerNode)
	for _, p := range slices.Concat(c.Lab.Pods, c.Lab.RemotePods, c.Lab.ThirdPods) {
		clustertest.Must(t, p.ServeAll(targetPort))
	}
	scenes := make([]*scene, len(faults))
	last, gone := len(faults)-2, len(faults)-1
	var setting stdsync.WaitGroup
	for i := range faults[:last] {
		scenes[i] = newScene(t, c, i+1)
		setting.Go(func() { faults[i].set(scenes[i]) })
	}
	setting.Wait()
	if t.Failed() {
		return
	}
	healthy := newScene(t, c, 0)
	healthy.web(0, 1, 2)
	healthy.service(3)
	c.AwaitRules(t)
	scenes[last] = newScene(t, c, last+1)
	faults[last].set(scenes[last])
	t.Run("together", func(t *testing.T) {
		t.Run("no fault", func(t *testing.T) {
			t.Parallel()
			out := c.Kubectl(t, append([]string{"vmap"}, strings.Fields(healthy.expand(problems))...)...)
			if out.Code != 0 || strings.Contains(out.Stdout, "web") {
				t.Error(out)
			}
		})
		for i, f := range faults[:gone] {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				f.isFound(t, scenes[i])
			})
		}
	})
	t.Run(faults[gone].name, func(t *testing.T) {
		s := newScene(t, c, gone+1)
		faults[gone].set(s)
		faults[gone].isFound(t, s)
	})
}

// isFound runs the command in a namespace with the fault, and checks its output.
func (f fault) isFound(t *testing.T, s *scene) {
	t.Helper()
	eventually.Succeeds(t, "packets show the fault", func() error { return f.fails(s) })
	out := s.cluster.Kubectl(t, append([]string{"vmap"}, strings.Fields(s.expand(f.command))...)...)
	t.Log(out)
	if f.without != "" && strings.Contains(out.Stdout, f.without) {
		t.Errorf("the output has %q", f.without)
	}
	for _, want := range f.want {
		if !slices.ContainsFunc(strings.Split(s.expand(want), " | "), func(one string) bool {
			return strings.Contains(out.Stdout, one)
		}) {
			t.Errorf("the output lacks %q", s.expand(want))
		}
	}
}

// expand replaces names in the texts of a fault.
func (s *scene) expand(text string) string {
	replace := []string{"NS", s.ns.Name}
	for i, n := range s.cluster.Nodes {
		replace = append(replace, fmt.Sprintf("NODE-%d", i+1), n.Name)
	}
	return strings.NewReplacer(replace...).Replace(text)
}

// The port of Services, and that of their Pods; hangPort is for a Pod that serves only the other.
const (
	port       = 80
	targetPort = 8080
	hangPort   = 8090
)

// silence is how long to wait for an answer that must not come.
const silence = 200 * time.Millisecond

// podsPerNode are, on each node: one that serves, one behind which another program drops
// packets in one of the faults, and a client.
const podsPerNode = 3

// scene is a namespace of the cluster for one fault.
type scene struct {
	testing.TB
	cluster *plugin.Cluster
	ns      *objects.Namespace
	number  int
}

// newScene makes a namespace with a client on each node, and with Pods of the app web
// unless a fault creates its own.
func newScene(t testing.TB, c *plugin.Cluster, number int) *scene {
	t.Helper()
	s := &scene{TB: t, cluster: c, ns: c.Namespace(t), number: number}
	for i, n := range c.Nodes {
		_, err := s.ns.CreatePod(s.context(), fmt.Sprintf("client-%d", i+1), "client", objects.At(n.Name, s.pods(i)[2]))
		s.must(err)
	}
	return s
}

func (s *scene) context() context.Context { return clustertest.Context(s) }

func (s *scene) must(err error) {
	s.Helper()
	clustertest.Must(s, err)
}

func (s *scene) pods(i int) []*lab.Pod {
	l := s.cluster.Lab
	return [][]*lab.Pod{l.Pods, l.RemotePods, l.ThirdPods}[i]
}

// client returns the client on the i-th node.
func (s *scene) client(i int) *traffic.Client { return traffic.From(s.pods(i)[2].Host) }

// web makes Pods of the app web, the first serving pod of each of these nodes.
func (s *scene) web(nodes ...int) {
	s.Helper()
	for _, i := range nodes {
		_, err := s.ns.CreatePod(s.context(), fmt.Sprintf("web-%d", i+1), "web", s.cluster.At(s.pods(i)[0]), ports)
		s.must(err)
	}
}

// ports declares the port of a Pod's container, by the name web.
func ports(spec *corev1.PodSpec) {
	spec.Containers[0].Ports = nil
	for _, p := range model.Protocols {
		spec.Containers[0].Ports = append(spec.Containers[0].Ports, corev1.ContainerPort{
			Name: "web-" + p.String(), ContainerPort: targetPort, Protocol: corev1.Protocol(strings.ToUpper(p.String())),
		})
	}
}

// service makes the Service web and waits for its endpoints.
func (s *scene) service(endpoints int, change ...func(*corev1.Service)) {
	s.Helper()
	object := objects.Service("web", objects.Ports(port, targetPort)...)
	for _, do := range change {
		do(object)
	}
	_, err := s.ns.CreateService(s.context(), object)
	s.must(err)
	s.must(s.ns.AwaitEndpoints(s.context(), "web", endpoints))
}

func (s *scene) get() *corev1.Service {
	s.Helper()
	object, err := s.ns.Client.CoreV1().Services(s.ns.Name).Get(s.context(), "web", metav1.GetOptions{})
	s.must(err)
	return object
}

// target returns the addresses of the Service web.
func (s *scene) target() traffic.Target { return traffic.Service(s.get(), port) }

// external returns an address of each family outside of the cluster that leads to node-1,
// a pair for each fault.
func (s *scene) external() (addrs [2]netip.Addr) {
	s.Helper()
	for _, f := range model.Families {
		base := [...]string{model.IPv4: "203.0.113.%d", model.IPv6: "2001:db8:f::%d"}[f]
		addrs[f] = netip.MustParseAddr(fmt.Sprintf(base, s.number))
		s.must(s.cluster.Lab.Outside.AddRoute(netip.PrefixFrom(addrs[f], addrs[f].BitLen()), s.cluster.Nodes[0].Addr(f)))
	}
	return addrs
}

func (s *scene) run(node int, stdin, program string, args ...string) {
	s.Helper()
	cmd := s.cluster.Nodes[node].Command(s.context(), program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("%s: %v: %s", program, err, out)
	}
}

// ask has a client connect over every way several times a second, until the scene ends,
// after a first round.
func (s *scene) ask(from *traffic.Client, to traffic.Target) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var asking stdsync.WaitGroup
	s.Cleanup(func() {
		cancel()
		asking.Wait()
	})
	first := make(chan struct{})
	asking.Go(func() {
		tick := time.NewTicker(silence)
		defer tick.Stop()
		for round := 0; ctx.Err() == nil; round++ {
			for _, w := range daemon.Transports() {
				_, _ = from.AskWithin(w, to.At(w.Family), silence) // whatever comes
			}
			if round == 0 {
				close(first)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	<-first
}
