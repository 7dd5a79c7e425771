package matrix

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

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
