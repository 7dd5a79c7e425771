package objects

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/model"
)

// manager is the owner of the slices created here, so that controllers ignore them.
const manager = "tests.kube-vmap"

// Slice returns an EndpointSlice without a controller: the endpoints, all ready and of
// one family, of a Service's ports. Change it as needed before
// [Namespace.CreateSlice].
func Slice(name, service string, ports []corev1.ServicePort, node string, endpoints ...netip.Addr) *discoveryv1.EndpointSlice {
	family := discoveryv1.AddressTypeIPv4
	if len(endpoints) > 0 && endpoints[0].Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: manager,
		}},
		AddressType: family,
	}
	for _, p := range ports {
		number := p.TargetPort.IntVal
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &number})
	}
	ready := true
	for _, a := range endpoints {
		e := discoveryv1.Endpoint{Addresses: []string{a.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
		if node != "" {
			e.NodeName = &node
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

// CreateSlice makes an EndpointSlice.
func (n *Namespace) CreateSlice(ctx context.Context, s *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	out, err := n.Client.DiscoveryV1().EndpointSlices(n.Name).Create(ctx, s, metav1.CreateOptions{})
	return out, n.explain(err, "make", "EndpointSlice", s.Name)
}

// UpdateSlice replaces an EndpointSlice, whatever it is now, if the given one has
// no resource version.
func (n *Namespace) UpdateSlice(ctx context.Context, s *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	out, err := n.Client.DiscoveryV1().EndpointSlices(n.Name).Update(ctx, s, metav1.UpdateOptions{})
	return out, n.explain(err, "change", "EndpointSlice", s.Name)
}

// Endpoints returns the ready endpoints of a Service in a family, in the order of
// their addresses, by all its slices.
func (n *Namespace) Endpoints(ctx context.Context, service string, f model.Family) ([]netip.Addr, error) {
	list, err := n.Client.DiscoveryV1().EndpointSlices(n.Name).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return nil, n.explain(err, "list the EndpointSlices of", "Service", service)
	}
	return ready(list.Items, f)
}

// AwaitEndpoints waits until the Service has so many ready endpoints in each family.
func (n *Namespace) AwaitEndpoints(ctx context.Context, service string, count int) error {
	var last [len(model.Families)][]netip.Addr
	err := wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (done bool, err error) {
		done = true
		for _, f := range model.Families {
			if last[f], err = n.Endpoints(ctx, service, f); err != nil {
				return false, err
			}
			done = done && len(last[f]) == count
		}
		return done, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %d endpoints of Service %s/%s, which has %v: %w", count, n.Name, service, last, err)
	}
	return nil
}
