package matrix

import (
	"errors"
	"fmt"
	stdsync "sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

// crowd are clients that ask without pause, and must be answered each time.
type crowd struct {
	s     *scene
	over  chan struct{}
	group stdsync.WaitGroup
	mu    stdsync.Mutex
	asked int
	errs  []error
}

// crowd has these questions asked from now on, those of each list one after the
// other.
func (s *scene) crowd(lists ...[]cell) *crowd {
	c := &crowd{s: s, over: make(chan struct{})}
	for _, cells := range lists {
		c.group.Go(func() { c.ask(cells) })
	}
	return c
}

func (c *crowd) ask(cells []cell) {
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

// goHome ends the crowd, of which nobody may have been left without answer.
func (c *crowd) goHome(t *testing.T) {
	t.Helper()
	close(c.over)
	c.group.Wait()
	if err := errors.Join(c.errs...); err != nil {
		t.Errorf("of %d questions while others changed:\n%.2000s", c.asked, err)
	}
	t.Logf("%d questions while others changed", c.asked)
}

// typed is the n-th Service with what its type gives it.
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

// TestAServiceChangesItsTypeInPlace goes through the types while others are
// asked without pause. What does not belong to the Service at a time is
// answered by whose it is: the host outside, or the node, which refuses.
// Connections go on whatever the Service becomes; UDP has none that anybody
// could end in good order, so that it is left out.
func TestAServiceChangesItsTypeInPlace(t *testing.T) {
	s := newScene(t)
	s.must(s.Node.ServeAll(daemon.TargetPort)) // whoever listens for SCTP refuses other ports
	s.holdOutside(vip, 1, port)
	s.holdOutside(externalIP, 1, port)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	bystander := daemon.Service{Number: 2, EndpointSpec: "pod-2"}
	s.put(typed(1, "pod-1", corev1.ServiceTypeClusterIP), bystander)
	s.start(daemon.PodRanges)
	one := result{by: []string{"pod-2"}}
	others := s.crowd(asks(s.inside(), usual, 2, one), asks([]*client{s.outside}, usual, 2, one))
	var talks []*talk
	for _, now := range []corev1.ServiceType{
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer,
		corev1.ServiceTypeExternalName, corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer,
		corev1.ServiceTypeNodePort, corev1.ServiceTypeExternalName, corev1.ServiceTypeNodePort,
	} {
		t.Run(string(now), func(t *testing.T) {
			s.put(typed(1, "pod-1", now), bystander)
			talks = append(talks, s.isOfType(t, 1, "pod-1", now)...)
			for _, k := range talks {
				k.goesOn(t)
			}
		})
	}
	others.goHome(t)
}

// isOfType checks where the Service answers, and where others do in its place. It
// returns connections by all of its addresses.
func (s *scene) isOfType(t *testing.T, n int, endpoint string, now corev1.ServiceType) []*talk {
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
	var talks []*talk
	for _, c := range of(cells, model.TCP, model.SCTP) {
		if len(c.want.by) > 0 && c.want.by[0] == endpoint {
			talks = append(talks, s.talk(c.from, c.transport, c.to))
		}
	}
	return talks
}

// TestPortsChangeWhileOthersAreAsked adds, renames, renumbers and removes the
// second port of a Service, and renames the first, which is asked without pause.
func TestPortsChangeWhileOthersAreAsked(t *testing.T) {
	s := newScene(t)
	s.must(s.Node.ServeAll(daemon.TargetPort)) // whoever listens for SCTP refuses other ports
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
		web = http // it hears of a Service before its endpoints, and refuses meanwhile
	}
	s.put(ports(http()))
	s.start(daemon.PodRanges)
	one := result{by: []string{"pod-2"}}
	others := s.crowd(asks(s.inside(), usual, 1, one), asks([]*client{s.outside}, []kind{clusterIP, nodePort}, 1, one))
	for _, step := range []struct {
		says           string
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
		t.Run(step.says, func(t *testing.T) {
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
	others.goHome(t)
}

// TestEndpointsGoAndComeBackForEveryAddress leaves the Services of all policies
// without endpoints, and gives them back.
func TestEndpointsGoAndComeBackForEveryAddress(t *testing.T) {
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
	flows := readFlows(t, "pods are told by a detector")
	for i, step := range []situation{
		{endpoints: "pod-1 remote-1", all: by(anySource, "pod-1 remote-1"), local: by(anySource, "pod-1")},
		{endpoints: "", all: isRefused, local: isRefused},
		{endpoints: "remote-1", all: by(anySource, "remote-1"), local: isSilent},
		{endpoints: "pod-1/terminated", all: isRefused, local: isRefused},
		{endpoints: "pod-1 remote-1", all: by(anySource, "pod-1 remote-1"), local: by(anySource, "pod-1")},
	} {
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
			s.check(t, cells)
		})
	}
}
