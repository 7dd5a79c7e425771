package matrix

import (
	"context"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

// keepAsking asks these questions without a pause, those of each list one after the other, until
// the returned function is called. Each must be answered.
func (s *scene) keepAsking(lists ...[]cell) (stop func(*testing.T)) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var asked atomic.Int64
	var group errgroup.Group
	for _, cells := range lists {
		group.Go(func() error {
			for i := 0; ctx.Err() == nil; i++ {
				if err := s.ask(cells[i%len(cells)]); err != nil {
					return err
				}
				asked.Add(1)
			}
			return nil
		})
	}
	return func(t *testing.T) {
		t.Helper()
		cancel()
		if err := group.Wait(); err != nil {
			t.Errorf("during changes: %v", err)
		}
		t.Logf("%d questions during changes", asked.Load())
	}
}

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
	stop := s.keepAsking(asks(s.inside(), usual, 2, one), asks([]*client{s.outside}, usual, 2, one))
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
	stop(t)
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

// TestNodesOfService changes the labels of the node. While a Service is for other nodes, its external
// addresses are the host outside's, even if another Service claims one, its node ports refuse, and
// its connections continue.
func TestNodesOfService(t *testing.T) {
	if kubeProxy != "" {
		t.Skip("kube-proxy does not have this annotation")
	}
	s := newScene(t)
	s.must(s.Node.ServeAll(daemon.TargetPort)) // an SCTP listener refuses other ports
	s.holdOutside(vip, 1, port)
	s.holdOutside(externalIP, 1, port)
	label := func(labels map[string]string) {
		n := daemon.NodeObject(s.Node, "")
		n.Labels = labels
		s.cluster(daemon.ServiceCIDR(), n)
	}
	label(map[string]string{"role": "edge"})
	selected := func(n int, endpoint, selector string) daemon.Service {
		return daemon.Service{Number: n, EndpointSpec: endpoint, Edit: func(o *corev1.Service) {
			o.Annotations["kube-vmap.io/nodes"] = selector
		}}
	}
	taker := daemon.Service{Number: 2, EndpointSpec: "pod-2", Edit: func(o *corev1.Service) {
		for _, f := range model.Families {
			o.Spec.ExternalIPs = append(o.Spec.ExternalIPs, externalIP.at(f, 1).Addr().String())
		}
	}}
	services := []daemon.Service{selected(1, "pod-1", "role=edge"), taker, selected(3, "pod-3", "role in")}
	s.put(services...)
	s.start(daemon.PodRanges)
	one := by(anySource, "pod-1")
	var connections []*connection
	for _, step := range []struct {
		name   string
		labels map[string]string
		here   bool
	}{
		{"selected", map[string]string{"role": "edge"}, true},
		{"another value", map[string]string{"role": "inner"}, false},
		{"selected again", map[string]string{"role": "edge", "more": ""}, true},
		{"no labels", nil, false},
	} {
		t.Run(step.name, func(t *testing.T) {
			label(step.labels)
			s.put(services...)
			ports, external := one, one
			if !step.here {
				ports, external = isRefused, by(anySource, "outside")
			}
			s.check(t, asks(s.clients(), []kind{clusterIP}, 1, one))
			s.check(t, asks(s.clients(), []kind{nodePort}, 1, ports))
			cells := asks(s.inside(), []kind{vip, externalIP}, 1, external)
			s.check(t, cells)
			s.check(t, asks(s.clients(), usual, 2, by(anySource, "pod-2")))
			s.check(t, asks(s.clients(), []kind{clusterIP}, 3, by(anySource, "pod-3")))
			s.check(t, asks(s.clients(), []kind{nodePort}, 3, isRefused)) // an invalid selector selects no node
			for _, c := range of(cells, model.TCP, model.SCTP) {
				if step.here {
					connections = append(connections, s.connect(c.from, c.transport, c.to))
				}
			}
			for _, k := range connections {
				k.works(t)
			}
		})
	}
}
