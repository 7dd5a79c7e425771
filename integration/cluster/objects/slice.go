package objects

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"kube-vmap/integration/eventually"
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
	return n.Client.DiscoveryV1().EndpointSlices(n.Name).Create(ctx, s, metav1.CreateOptions{})
}

// UpdateSlice replaces an EndpointSlice, whatever it is now, if the given one has
// no resource version.
func (n *Namespace) UpdateSlice(ctx context.Context, s *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	return n.Client.DiscoveryV1().EndpointSlices(n.Name).Update(ctx, s, metav1.UpdateOptions{})
}

// AwaitEndpoints waits until the Service has so many ready endpoints in each family, by all its
// slices.
func (n *Namespace) AwaitEndpoints(ctx context.Context, service string, count int) error {
	return eventually.Try(ctx, func() error {
		list, err := n.Client.DiscoveryV1().EndpointSlices(n.Name).List(ctx,
			metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
		if err != nil {
			return err
		}
		ready := map[string]sets.Set[string]{}
		for _, f := range model.Families {
			ready[f.String()] = sets.Set[string]{}
		}
		for _, s := range list.Items {
			for _, e := range s.Endpoints {
				if ptr.Deref(e.Conditions.Ready, true) {
					ready[string(s.AddressType)].Insert(e.Addresses...)
				}
			}
		}
		for _, found := range ready {
			if len(found) != count {
				return fmt.Errorf("service %s/%s has the endpoints %v, want %d", n.Name, service, ready, count)
			}
		}
		return nil
	})
}
