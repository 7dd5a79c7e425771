package objects

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"

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
