package matrix

import (
	"fmt"
	"net/netip"
	"slices"
	stdsync "sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// Further addresses of node-1: NodePorts are served at another if the flags say so, at
// stray never.
var (
	anotherAddrs = [2]netip.Addr{netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8:2::11")}
	strayAddrs   = [2]netip.Addr{netip.MustParseAddr("192.0.2.12"), netip.MustParseAddr("2001:db8:2::12")}
)

// nodePortAddresses is the flag with the primary and the other address.
const nodePortAddresses = "--nodeport-addresses=192.0.2.1/32,192.0.2.11/32,2001:db8:2::1/128,2001:db8:2::11/128"

const (
	// port is the port of Services.
	port = daemon.Port
	// nodePorts is the NodePort of Service 0.
	nodePorts = 30000
)

// nth returns the n-th address of a range, n being at most 255.
func nth(p netip.Prefix, n int) netip.Addr {
	b := p.Addr().AsSlice()
	b[len(b)-1] = byte(n)
	a, _ := netip.AddrFromSlice(b)
	return a
}

// kind is a kind of frontend, the NodePort at two addresses.
type kind uint8

const (
	clusterIP kind = iota
	nodePort
	// nodePortOther is the NodePort at the node's other address.
	nodePortToo
	vip
	externalIP
)

// kinds are all kinds, usual those without nodePortOther.
var (
	kinds = []kind{clusterIP, nodePort, nodePortToo, vip, externalIP}
	usual = []kind{clusterIP, nodePort, vip, externalIP}
)

// String returns the name in the tables.
func (k kind) String() string {
	return [...]string{"ClusterIP", "NodePort", "NodePort at the node's other address", "load balancer IP", "external IP"}[k]
}

// at returns where the n-th Service has its port 80.
func (k kind) at(f model.Family, n int) netip.AddrPort { return k.port(f, n, port, nodePorts+n) }

// port returns where the n-th Service has a port with this NodePort.
func (k kind) port(f model.Family, n, port, nodePort int) netip.AddrPort {
	switch k {
	case clusterIP:
		return addrPort(daemon.Service{Number: n}.Addr(f, model.KindClusterIP), port)
	case nodePortToo:
		return addrPort(anotherAddrs[f], nodePort)
	case vip:
		return addrPort(daemon.Service{Number: n}.Addr(f, model.KindLoadBalancerIP), port)
	case externalIP:
		return addrPort(daemon.Service{Number: n}.Addr(f, model.KindExternalIP), port)
	}
	return addrPort(nodeAddr(f), nodePort)
}

func nodeAddr(f model.Family) netip.Addr { return nth(lab.OutsideRanges[f], 1) }

func addrPort(a netip.Addr, port int) netip.AddrPort { return netip.AddrPortFrom(a, uint16(port)) }

// scene is a lab with a folder of manifests and clients.
//
// Endpoints can be pod-1 to pod-3 and, on node-2, remote-1 and remote-2. The clients
// are a pod that is no endpoint, one that can reach itself, the node, the node from its
// other address, and the host outside.
type scene struct {
	*lab.Lab
	t          *testing.T
	folder     *daemon.Folder
	nodeAddrs  []netip.Addr // all of node-1 except those towards its pods
	generation int
	served     [2][]netip.Addr // where NodePorts must be served
	api        *api

	mu   stdsync.Mutex
	kept map[choice]string // the hosts that answered

	pod, itself, node, nodeOther, outside *client
}

// newScene builds a lab. node-1 has two more addresses, and all hosts route Service
// addresses to it.
func newScene(t *testing.T) *scene {
	t.Helper()
	return newSceneIn(t, lab.Options{Pods: 4, RemotePods: 2})
}

func newSceneIn(t *testing.T, o lab.Options) *scene {
	t.Helper()
	t.Parallel() // tests wait most of the time
	l := labtest.New(t, o)
	for _, h := range l.Hosts() { // by default veth leaves checksums to a device that does not exist
		if err := h.Do(sumInSoftware); err != nil {
			t.Fatal(err)
		}
	}
	s := &scene{
		Lab: l, t: t, folder: daemon.EmptyFolder(t, l), kept: map[choice]string{},
		pod:     &client{Host: l.Pods[3].Host, name: "a pod", row: "pod"},
		itself:  &client{Host: l.Pods[0].Host, name: "pod-1 itself", row: "pod"},
		node:    &client{Host: l.Node.Host, name: "the node", row: "node"},
		outside: &client{Host: l.Outside, name: "the host outside", row: "outside"},
	}
	s.nodeOther = s.node.fromOther("the node from its other address", anotherAddrs)
	s.api = newAPI(t, l.Node.Host)
	for _, h := range []*lab.Host{l.Pods[0].Host, l.Pods[1].Host, l.Pods[2].Host, l.RemotePods[0].Host, l.RemotePods[1].Host} {
		s.must(h.ServeAll(daemon.TargetPort))
	}
	daemon.RouteServices(t, l, l.Node)
	for _, f := range model.Families {
		s.nodeAddrs = append(s.nodeAddrs, nodeAddr(f))
		s.addNodeAddr(anotherAddrs[f])
		s.addNodeAddr(strayAddrs[f])
		// An endpoint of node-2 that sees the address of the host outside would answer
		// directly, and the answer would not be translated back.
		a := l.Outside.Addr(f)
		s.must(l.Remote.AddRoute(netip.PrefixFrom(a, a.BitLen()), nodeAddr(f)))
	}
	return s
}

func (s *scene) clients() []*client { return []*client{s.pod, s.node, s.outside} }

func (s *scene) addNodeAddr(a netip.Addr) {
	s.t.Helper()
	s.must(s.Node.AddAddress(a))
	s.nodeAddrs = append(s.nodeAddrs, a)
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// start runs the proxy, and waits until the kernel has the rules. It returns a function
// that stops the proxy.
func (s *scene) start(flags ...string) (stop func()) {
	s.t.Helper()
	var served [2][]netip.Addr
	for _, f := range model.Families {
		served[f] = append(served[f], nodeAddr(f))
		if slices.Contains(flags, nodePortAddresses) {
			served[f] = append(served[f], anotherAddrs[f])
		}
	}
	return s.startServing(served, flags...)
}

// startServing is start with flags for NodePorts at these addresses.
func (s *scene) startServing(served [2][]netip.Addr, flags ...string) (stop func()) {
	s.t.Helper()
	s.served = served
	s.announce()
	stop = s.run(flags...)
	s.settles()
	return stop
}

// put writes Services in place of those of the last call, and, if the proxy runs,
// waits until the kernel has them. Of a Service that leaves these fields empty it
// completes the name, and the ports: the same port and NodePort for all protocols.
// All Services have all kinds of frontends.
func (s *scene) put(services ...daemon.Service) {
	s.t.Helper()
	s.putObjects(s.objects(services...)...)
}

func (s *scene) putObjects(objects ...any) {
	s.t.Helper()
	s.write("services", objects...)
	if s.generation > 0 {
		s.announce()
		s.settles()
	}
}

func (s *scene) objects(services ...daemon.Service) []any {
	var all []daemon.Service
	for _, v := range services {
		v.Kinds = daemon.Kinds
		if v.Name == "" {
			v.Name = fmt.Sprintf("service-%d", v.Number)
		}
		if v.ServicePorts == nil {
			v.ServicePorts = daemon.EveryProtocol("", port, daemon.TargetPort, nodePorts+v.Number)
		}
		all = append(all, v)
	}
	return s.folder.Objects(all...)
}

// cluster writes the objects other than Services.
func (s *scene) cluster(objects ...any) {
	s.t.Helper()
	s.write("cluster", objects...)
}

func (s *scene) write(name string, objects ...any) {
	s.t.Helper()
	s.folder.WriteObjects(name, objects...)
	s.api.write(name, objects)
}

// beacon is a Service that gets another port with each change, in a file that is
// written last. The proxy reads all files and sends one batch, so when the port answers,
// everything else is programmed.
const beacon = 250

func (s *scene) beaconPorts() (port, nodePort int) {
	return 1000 + s.generation, nodePorts + 1000 + s.generation
}

func (s *scene) announce() {
	s.t.Helper()
	s.generation++
	port, nodePort := s.beaconPorts()
	b := daemon.Service{Number: beacon, Name: "beacon", EndpointSpec: "pod-1", ServicePorts: []daemon.ServicePort{
		{Name: fmt.Sprintf("port-%d", port), Protocol: model.TCP, Port: port, Target: daemon.TargetPort, NodePort: nodePort},
	}}
	b.Edit = func(o *corev1.Service) {
		for _, f := range model.Families {
			o.Spec.LoadBalancerSourceRanges = append(o.Spec.LoadBalancerSourceRanges, lab.PodRanges[f].String())
		}
	}
	s.write("z-beacon", s.objects(b)...)
}

// settles waits until the beacon answers at its NodePort, if NodePorts are served, and
// at its load balancer address. That one has source ranges, because changes of
// intervals become visible a few microseconds after the rest of a commit (nft_set_pipapo
// works on a copy, which it activates last).
func (s *scene) settles() {
	s.t.Helper()
	port, nodePort := s.beaconPorts()
	for _, f := range model.Families {
		var seen []netip.AddrPort
		for _, a := range s.served[f] {
			seen = append(seen, addrPort(a, nodePort))
		}
		for _, to := range append(seen, vip.port(f, beacon, port, nodePort)) {
			eventually.Succeeds(s.t, "the beacon answers", func() error {
				a, err := s.pod.ask(daemon.Transport{Protocol: model.TCP, Family: f}, to, silence)
				if err == nil && a.Outcome != lab.Answered {
					err = fmt.Errorf("%s: %s", to, a)
				}
				return err
			})
		}
	}
}
