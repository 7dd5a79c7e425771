// Package resolve finds what the flags --from and --to of kubectl vmap explain name: pods,
// the pods of workloads, Services, nodes and addresses.
//
//	--from pod/shop/cart-7f9 ----> Client      address of each family, node --+
//	                                                                          +--> Packets
//	--to svc/shop/web:http ------> Destination ports; addresses per client  --+
//
// Everything is read from the API server, when it is asked for. An error names what exists
// instead, such as the ports of the Service, or the command that lists it.
package resolve

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-vmap/cmd/inspect/explain/reference"
	"kube-vmap/model"
)

// A Resolver reads objects from the API server.
type Resolver struct {
	API kubernetes.Interface
	// Namespace is the one of names without one.
	Namespace string
}

// An Object is what a flag names.
type Object struct {
	Kind      reference.Kind `json:"kind"` // pod, node, service, address
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name,omitempty"` // or the address
	// Node is the node that it is on; empty for Services and for addresses outside the
	// cluster.
	Node string `json:"node,omitempty"`
	// Of is the Service that has the address of a destination: "ClusterIP of shop/web".
	Of string `json:"of,omitempty"`
	// Addresses are of a pod, a node or the address itself, at most one of each
	// family.
	Addresses []netip.Addr `json:"-"`
	// Notes state which object of several was taken, and what is particular about it.
	Notes []string `json:"-"`
}

// String returns "pod shop/cart-7f9", "node node-1" or "192.0.2.9".
func (o Object) String() string {
	name := strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
	if o.Kind == reference.KindAddress {
		return name
	}
	return string(o.Kind) + " " + name
}

// Place returns "pod shop/cart-7f9 on node-1".
func (o Object) Place() string {
	switch text := o.String(); {
	case o.Of != "":
		return text + ", " + o.Of
	case o.Node != "" && o.Kind != reference.KindNode:
		return text + " on " + o.Node
	case o.Node == "" && o.Kind == reference.KindAddress:
		return text + " outside the cluster"
	default:
		return text
	}
}

// Addr returns the address of a family.
func (o Object) Addr(f model.Family) (a netip.Addr, ok bool) {
	for _, a := range o.Addresses {
		if model.FamilyOf(a) == f {
			return a, true
		}
	}
	return a, false
}

// A Client is the sender of packets.
type Client struct {
	Object
	Port uint16 // zero for any
}

// Outside reports whether the client is not in the cluster.
func (c Client) Outside() bool { return c.Node == "" }

// Client resolves --from.
func (r *Resolver) Client(ctx context.Context, text string) (c Client, err error) {
	ref, err := reference.Parse(text, r.Namespace)
	switch {
	case err != nil:
		return c, err
	case ref.Kind == reference.KindService:
		return c, fmt.Errorf("%q is a Service, which sends no packets: name a client, for instance pod/NAME", text)
	}
	if c.Port, err = ref.SourcePort(); err != nil {
		return c, err
	}
	c.Object, _, err = r.object(ctx, ref)
	return c, err
}

// object resolves everything but Services; ports are those that a pod declares.
func (r *Resolver) object(ctx context.Context, ref reference.Reference) (Object, []Port, error) {
	switch ref.Kind {
	case reference.KindNode:
		o, err := r.node(ctx, ref.Name)
		return o, nil, err
	case reference.KindAddress:
		o, err := r.At(ctx, ref.Address)
		return o, nil, err
	case reference.KindPod:
		p, err := r.API.CoreV1().Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err := explainError(reference.KindPod, ref.Namespace, ref.Name, err); err != nil {
			return Object{}, nil, err
		}
		o, err := podObject(p)
		return o, podPorts(p), err
	default:
		p, note, err := r.podOf(ctx, ref)
		if err != nil {
			return Object{}, nil, err
		}
		o, err := podObject(p)
		o.Notes = append([]string{note}, o.Notes...)
		return o, podPorts(p), err
	}
}

// explainError adds to an error of the API server how to find what exists, or where the
// permission is; nil for nil.
func explainError(kind reference.Kind, namespace, name string, err error) error {
	switch {
	case err == nil || !apierrors.IsNotFound(err):
		return permissionError(err)
	case namespace == "":
		return fmt.Errorf("there is no %s %s; kubectl get %[1]ss lists them", kind, name)
	}
	return fmt.Errorf("there is no %s %s in namespace %s; kubectl get %[1]ss -A lists them", kind, name, namespace)
}

func permissionError(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; the ClusterRole of deploy/kubectl permits it", err)
	}
	return err
}

// A Destination is where packets are sent.
type Destination struct {
	Object
	Ports   []Port
	Service *corev1.Service // nil if it is none
}

// Destination resolves --to.
func (r *Resolver) Destination(ctx context.Context, text string) (d Destination, err error) {
	ref, err := reference.Parse(text, r.Namespace)
	if err != nil {
		return d, err
	}
	if ref.Kind == reference.KindService {
		return r.service(ctx, ref)
	}
	var declared []Port
	if d.Object, declared, err = r.object(ctx, ref); err != nil {
		return d, err
	}
	if d.Kind == reference.KindAddress && d.Node == "" {
		if d.Of, err = r.serviceAt(ctx, d.Addresses[0]); err != nil {
			return d, err
		}
	}
	d.Ports, err = selectPorts(d.String(), declared, ref)
	return d, err
}

// serviceAt returns the Service that has an address, and as what; empty if none has.
func (r *Resolver) serviceAt(ctx context.Context, a netip.Addr) (string, error) {
	list, err := r.API.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", permissionError(err)
	}
	for i := range list.Items {
		s := &list.Items[i]
		if kind := addressKind(s, a); kind != "" {
			return kind + " of " + s.Namespace + "/" + s.Name, nil
		}
	}
	return "", nil
}

// addressKind returns what an address is to a Service, as "ClusterIP"; empty if it does not have it.
func addressKind(s *corev1.Service, a netip.Addr) string {
	is := func(text string) bool { b, err := netip.ParseAddr(text); return err == nil && b.Unmap() == a }
	switch {
	case is(s.Spec.ClusterIP), slices.ContainsFunc(s.Spec.ClusterIPs, is):
		return model.KindClusterIP.String()
	case slices.ContainsFunc(s.Spec.ExternalIPs, is):
		return model.KindExternalIP.String()
	case slices.ContainsFunc(s.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return is(i.IP) }):
		return model.KindLoadBalancerIP.String()
	}
	return ""
}

func (r *Resolver) service(ctx context.Context, ref reference.Reference) (d Destination, err error) {
	s, err := r.API.CoreV1().Services(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err := explainError(reference.KindService, ref.Namespace, ref.Name, err); err != nil {
		return d, err
	}
	d = Destination{Object: Object{Kind: reference.KindService, Namespace: s.Namespace, Name: s.Name}, Service: s}
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return d, fmt.Errorf("%s has no address (spec.type: ExternalName): DNS answers with %s, and no proxy is involved",
			d, s.Spec.ExternalName)
	case s.Spec.ClusterIP == corev1.ClusterIPNone:
		return d, fmt.Errorf("%s is headless (spec.clusterIP: None): DNS answers with the addresses of its pods, and no "+
			"proxy is involved; name a pod: --to pod/NAME:PORT", d)
	case s.Spec.ClusterIP == "":
		return d, fmt.Errorf("%s has no address yet (spec.clusterIP is empty)", d)
	}
	d.Ports, err = selectPorts(d.String(), servicePorts(s), ref)
	return d, err
}

func servicePorts(s *corev1.Service) (ports []Port) {
	for _, p := range s.Spec.Ports {
		ports = append(ports, Port{
			Name: p.Name, Number: uint16(p.Port), Protocol: protocol(p.Protocol), //nolint:gosec // validated by the API server
			nodePort: uint16(p.NodePort), target: p.TargetPort.String(), //nolint:gosec // validated by the API server
		})
	}
	return ports
}

type address struct {
	addr netip.Addr
	node bool // of a node, with the node port
}

// addresses returns the addresses of a family that a client can use, in the order of
// preference. A Service's depend on whether the client is in the cluster; entry is
// the node at which packets of others arrive.
func (d Destination) addresses(f model.Family, outside bool, entry Object) (out []address) {
	if d.Service == nil {
		if a, ok := d.Addr(f); ok {
			return []address{{addr: a}}
		}
		return nil
	}
	add := func(text string) {
		if a, err := netip.ParseAddr(text); err == nil && model.FamilyOf(a) == f {
			out = append(out, address{addr: a})
		}
	}
	if !outside {
		for _, ip := range d.Service.Spec.ClusterIPs {
			add(ip)
		}
		if len(d.Service.Spec.ClusterIPs) == 0 {
			add(d.Service.Spec.ClusterIP)
		}
		return out
	}
	for _, i := range d.Service.Status.LoadBalancer.Ingress {
		if i.IPMode == nil || *i.IPMode == corev1.LoadBalancerIPModeVIP {
			add(i.IP)
		}
	}
	for _, ip := range d.Service.Spec.ExternalIPs {
		add(ip)
	}
	hasNodePort := slices.ContainsFunc(d.Ports, func(p Port) bool { return p.nodePort != 0 })
	if a, ok := entry.Addr(f); ok && hasNodePort {
		out = append(out, address{addr: a, node: true})
	}
	return out
}
