package objects

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"kube-vmap/integration/eventually"
	"kube-vmap/model"
)

// App is the label by which a Service finds its Pods.
const App = "app"

// Port returns a Service's port over a protocol; its name is the protocol's and its
// number, such as "tcp-80".
func Port(p model.Protocol, port, target uint16) corev1.ServicePort {
	return corev1.ServicePort{
		Name:       fmt.Sprintf("%s-%d", p, port),
		Protocol:   corev1.Protocol(strings.ToUpper(p.String())),
		Port:       int32(port),
		TargetPort: intstr.FromInt32(int32(target)),
	}
}

// Ports are [Port] for every protocol a Service can have.
func Ports(port, target uint16) []corev1.ServicePort {
	var all []corev1.ServicePort
	for _, p := range model.Protocols {
		all = append(all, Port(p, port, target))
	}
	return all
}

// Service returns a ClusterIP Service of both families that selects the Pods whose app
// has its name. Change it as needed before [Namespace.CreateService].
func Service(name string, ports ...corev1.ServicePort) *corev1.Service {
	both := corev1.IPFamilyPolicyRequireDualStack
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector:       map[string]string{App: name},
			Ports:          ports,
			IPFamilyPolicy: &both,
			IPFamilies:     []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
		},
	}
}

// CreateService creates a Service and returns it with its ClusterIPs and defaults.
func (n *Namespace) CreateService(ctx context.Context, s *corev1.Service) (*corev1.Service, error) {
	return n.services().Create(ctx, s, metav1.CreateOptions{})
}

func (n *Namespace) services() clientcorev1.ServiceInterface {
	return n.Client.CoreV1().Services(n.Name)
}

// ChangeService changes the current version of a Service, and retries on conflicts.
func (n *Namespace) ChangeService(ctx context.Context, name string, change func(*corev1.Service)) (*corev1.Service, error) {
	return n.change(ctx, name, change, n.services().Update)
}

// SetLoadBalancer gives a Service of type LoadBalancer its addresses, as a cloud
// would.
func (n *Namespace) SetLoadBalancer(ctx context.Context, name string, ingress ...corev1.LoadBalancerIngress) error {
	_, err := n.change(ctx, name, func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = ingress }, n.services().UpdateStatus)
	return err
}

// change changes a Service and writes it, until there is no conflict.
func (n *Namespace) change(ctx context.Context, name string, change func(*corev1.Service),
	write func(context.Context, *corev1.Service, metav1.UpdateOptions) (*corev1.Service, error),
) (out *corev1.Service, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		s, err := n.services().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(s)
		out, err = write(ctx, s, metav1.UpdateOptions{})
		return err
	})
	return out, err
}

// DeleteService removes a Service, if it is there. The controllers remove its
// EndpointSlices a little later.
func (n *Namespace) DeleteService(ctx context.Context, name string) error {
	return ignoreGone(n.services().Delete(ctx, name, metav1.DeleteOptions{}))
}

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
