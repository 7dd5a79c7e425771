package resolve

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

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
