package matrix

import (
	"errors"
	"fmt"
	"strings"
	stdsync "sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

// background is questions that are repeated without a pause, and must be answered each
// time.
type background struct {
	s     *scene
	over  chan struct{}
	group stdsync.WaitGroup
	mu    stdsync.Mutex
	asked int
	errs  []error
}

// keepAsking starts to ask these questions, those of each list one after the other.
func (s *scene) keepAsking(lists ...[]cell) *background {
	c := &background{s: s, over: make(chan struct{})}
	for _, cells := range lists {
		c.group.Go(func() { c.ask(cells) })
	}
	return c
}

func (c *background) ask(cells []cell) {
	for {
		for _, q := range cells {
			select {
			case <-c.over:
				return
			default:
			}
			err := c.s.ask(q)
			c.mu.Lock()
			c.asked++
			c.errs = append(c.errs, err)
			c.mu.Unlock()
		}
	}
}

// stop stops asking. An error fails the test.
func (c *background) stop(t *testing.T) {
	t.Helper()
	close(c.over)
	c.group.Wait()
	if err := errors.Join(c.errs...); err != nil {
		t.Errorf("of %d questions during changes:\n%.2000s", c.asked, err)
	}
	t.Logf("%d questions during changes", c.asked)
}

// typed returns the n-th Service as a Service of this type.
func typed(n int, endpoints string, now corev1.ServiceType) daemon.Service {
	s := daemon.Service{Number: n, EndpointSpec: endpoints}
	s.Edit = func(o *corev1.Service) {
		o.Spec.Type = now
		if now == corev1.ServiceTypeLoadBalancer {
			return
		}
		o.Spec.ExternalIPs, o.Status = nil, corev1.ServiceStatus{}
		if now == corev1.ServiceTypeNodePort {
			return
		}
		o.Spec.ExternalTrafficPolicy = ""
		for i := range o.Spec.Ports {
			o.Spec.Ports[i].NodePort = 0
		}
		if now == corev1.ServiceTypeExternalName {
			o.Spec.ExternalName = "elsewhere.example"
			o.Spec.ClusterIP, o.Spec.ClusterIPs, o.Spec.IPFamilies = "", nil, nil
		}
	}
	return s
}

// TestServiceTypeChanges goes through the types while another Service is asked without a
// pause. Addresses that the Service does not have at a time are answered by their
// owner: the host outside, or the node, which refuses. Connections continue whatever
// the type is, except for UDP, which has no connections.
func TestServiceTypeChanges(t *testing.T) {
	s := newScene(t)
	s.must(s.Node.ServeAll(daemon.TargetPort)) // an SCTP listener refuses other ports
	s.holdOutside(vip, 1, port)
	s.holdOutside(externalIP, 1, port)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	bystander := daemon.Service{Number: 2, EndpointSpec: "pod-2"}
	s.put(typed(1, "pod-1", corev1.ServiceTypeClusterIP), bystander)
	s.start(daemon.PodRanges)
	one := result{by: []string{"pod-2"}}
	others := s.keepAsking(asks(s.inside(), usual, 2, one), asks([]*client{s.outside}, usual, 2, one))
	var connections []*connection
	for _, now := range []corev1.ServiceType{
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer,
		corev1.ServiceTypeExternalName, corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer,
		corev1.ServiceTypeNodePort, corev1.ServiceTypeExternalName, corev1.ServiceTypeNodePort,
	} {
		t.Run(string(now), func(t *testing.T) {
			s.put(typed(1, "pod-1", now), bystander)
			connections = append(connections, s.isOfType(t, 1, "pod-1", now)...)
			for _, k := range connections {
				k.works(t)
			}
		})
	}
	others.stop(t)
}

// isOfType checks at which addresses the Service answers, and at which others do. It
// returns connections to all of its addresses.
func (s *scene) isOfType(t *testing.T, n int, endpoint string, now corev1.ServiceType) []*connection {
	t.Helper()
	answered := by(anySource, endpoint)
	inner, ports, external := answered, answered, answered
	switch now {
	case corev1.ServiceTypeExternalName:
		inner, ports, external = isSilent, isRefused, by(anySource, "outside")
	case corev1.ServiceTypeClusterIP:
		ports, external = isRefused, by(anySource, "outside")
	case corev1.ServiceTypeNodePort:
		external = by(anySource, "outside")
	}
	cells := asks(s.clients(), []kind{clusterIP}, n, inner)
	cells = append(cells, asks(s.clients(), []kind{nodePort}, n, ports)...)
	cells = append(cells, asks(s.inside(), []kind{vip, externalIP}, n, external)...)
	s.check(t, cells)
	var connections []*connection
	for _, c := range of(cells, model.TCP, model.SCTP) {
		if len(c.want.by) > 0 && c.want.by[0] == endpoint {
			connections = append(connections, s.connect(c.from, c.transport, c.to))
		}
	}
	return connections
}

// TestPortChangesDoNotDisturbOtherPorts adds, renames, renumbers and removes the
// second port of a Service, and renames the first, which is asked without pause.
func TestPortChangesDoNotDisturbOtherPorts(t *testing.T) {
	s := newScene(t)
	s.must(s.Node.ServeAll(daemon.TargetPort)) // an SCTP listener refuses other ports
	for _, p := range s.Pods[:3] {
		s.must(p.ServeAll(daemon.TargetPort + 1))
	}
	const first, second = port, port + 1
	s.holdOutside(vip, 1, second, second+1)
	s.holdOutside(externalIP, 1, second, second+1)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	ports := func(more ...[]daemon.ServicePort) daemon.Service {
		v := daemon.Service{Number: 1, EndpointSpec: "pod-2", ServicePorts: []daemon.ServicePort{}}
		for _, p := range more {
			v.ServicePorts = append(v.ServicePorts, p...)
		}
		return v
	}
	serving := func(ports []daemon.ServicePort, endpoints string) []daemon.ServicePort {
		for i := range ports {
			ports[i].EndpointSpec = endpoints
		}
		return ports
	}
	http := func() []daemon.ServicePort {
		return daemon.EveryProtocol("http-", first, daemon.TargetPort, nodePorts+1)
	}
	web := func() []daemon.ServicePort {
		return daemon.EveryProtocol("web-", first, daemon.TargetPort, nodePorts+1)
	}
	if kubeProxy != "" {
		web = http // it handles a Service before its endpoints, and refuses meanwhile
	}
	s.put(ports(http()))
	s.start(daemon.PodRanges)
	one := result{by: []string{"pod-2"}}
	others := s.keepAsking(asks(s.inside(), usual, 1, one), asks([]*client{s.outside}, []kind{clusterIP, nodePort}, 1, one))
	for _, step := range []struct {
		name           string
		service        daemon.Service
		port, nodePort int // of the second port; 0 if there is none
		by             string
	}{
		{"one port only", ports(http()), 0, 0, ""},
		{"a port is added", ports(http(), serving(daemon.EveryProtocol("admin-", second, daemon.TargetPort, nodePorts+101), "pod-1")), second, nodePorts + 101, "pod-1"},
		{"it is renamed", ports(http(), serving(daemon.EveryProtocol("ops-", second, daemon.TargetPort, nodePorts+101), "pod-1")), second, nodePorts + 101, "pod-1"},
		{"the first is renamed", ports(web(), serving(daemon.EveryProtocol("ops-", second, daemon.TargetPort, nodePorts+101), "pod-1")), second, nodePorts + 101, "pod-1"},
		{"it has another number", ports(web(), serving(daemon.EveryProtocol("ops-", second+1, daemon.TargetPort, nodePorts+101), "pod-1")), second + 1, nodePorts + 101, "pod-1"},
		{"it has another NodePort", ports(web(), serving(daemon.EveryProtocol("ops-", second+1, daemon.TargetPort, nodePorts+102), "pod-1")), second + 1, nodePorts + 102, "pod-1"},
		{"it has another endpoint", ports(web(), serving(daemon.EveryProtocol("ops-", second+1, daemon.TargetPort, nodePorts+102), "remote-1")), second + 1, nodePorts + 102, "remote-1"},
		{"it has another target port", ports(web(), serving(daemon.EveryProtocol("ops-", second+1, daemon.TargetPort+1, nodePorts+102), "pod-3")), second + 1, nodePorts + 102, "pod-3"},
		{"the two change places", ports(serving(daemon.EveryProtocol("ops-", second+1, daemon.TargetPort+1, nodePorts+102), "pod-3"), web()), second + 1, nodePorts + 102, "pod-3"},
		{"it is removed", ports(web()), 0, 0, ""},
	} {
		t.Run(step.name, func(t *testing.T) {
			s.put(step.service)
			var cells []cell
			for _, number := range []int{second, second + 1} {
				want, foreign := isRefused, by(anySource, "outside")
				if number == step.port {
					want, foreign = by(anySource, step.by), by(anySource, step.by)
				}
				cells = append(cells, asksPort(s.clients(), []kind{clusterIP}, 1, number, 0, want)...)
				cells = append(cells, asksPort(s.inside(), []kind{vip, externalIP}, 1, number, 0, foreign)...)
			}
			for _, number := range []int{nodePorts + 101, nodePorts + 102} {
				want := isRefused
				if number == step.nodePort {
					want = by(anySource, step.by)
				}
				cells = append(cells, asksPort(s.clients(), []kind{nodePort}, 1, 0, number, want)...)
			}
			s.check(t, cells)
		})
	}
	others.stop(t)
}

// TestEndpointsAreRemovedAndAddedForEveryAddress removes the endpoints of Services with
// all policies, drains them, and adds them again.
func TestEndpointsAreRemovedAndAddedForEveryAddress(t *testing.T) {
	s := newScene(t)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	with := func(endpoints string) []daemon.Service {
		var all []daemon.Service
		for i, p := range policies {
			all = append(all, daemon.Service{Number: i + 1, EndpointSpec: endpoints, LocalOutside: p.externalLocal, LocalInside: p.internalLocal})
		}
		return all
	}
	s.put(with("pod-1 remote-1")...)
	s.start(daemon.PodRanges, nodePortAddresses)
	flows := readFlows(t, "pods are detected")
	for i, step := range []endpointSet{
		{endpoints: "pod-1 remote-1", all: by(anySource, "pod-1 remote-1"), local: by(anySource, "pod-1")},
		{endpoints: "", all: isRefused, local: isRefused},
		{endpoints: "remote-1", all: by(anySource, "remote-1"), local: isSilent},
		{endpoints: "pod-1/terminated", all: isRefused, local: isRefused},
		{endpoints: "pod-1 remote-1", all: by(anySource, "pod-1 remote-1"), local: by(anySource, "pod-1")},
		{endpoints: "pod-1/weight=0 remote-1/weight=2", all: by(anySource, "remote-1"), local: isSilent},
		{endpoints: "pod-1/weight=0 remote-1/weight=0", all: isRefused, local: isRefused},
		{endpoints: "pod-1/weight=5 remote-1/weight=0", all: by(anySource, "pod-1"), local: by(anySource, "pod-1")},
	} {
		if kubeProxy != "" && strings.Contains(step.endpoints, "weight=") {
			continue // it has no weights
		}
		t.Run(fmt.Sprintf("%d: %s", i, step.endpoints), func(t *testing.T) {
			s.put(with(step.endpoints)...)
			var cells []cell
			for j := range policies {
				for _, c := range s.clients() {
					for _, k := range kinds {
						want := step.result(flows[rowOf(c, k)][column(j, k)])
						cells = append(cells, asks([]*client{c}, []kind{k}, j+1, want)...)
					}
				}
			}
			s.check(t, sampled(cells))
		})
	}
}
