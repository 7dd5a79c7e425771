package resolve

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// At finds what has an address: a node, a pod, an endpoint, or nothing in the cluster.
//
// The API server selects pods by the first of their addresses only, so a pod is searched
// among those of the node whose range has the address, too. EndpointSlices are read page by
// page, as the last possibility.
func (r *Resolver) At(ctx context.Context, a netip.Addr) (Object, error) {
	found := Object{Kind: KindAddress, Addresses: []netip.Addr{a}}
	nodes, err := r.API.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return found, permissionError(err)
	}
	ranges := ""
	for i := range nodes.Items {
		n := &nodes.Items[i]
		switch {
		case hasAddress(n, a):
			return Object{Kind: KindNode, Name: n.Name, Node: n.Name, Addresses: found.Addresses}, nil
		case podRangeOf(n, a):
			ranges = n.Name
		}
	}
	selectors := []string{"status.podIP=" + a.String()}
	if ranges != "" {
		selectors = append(selectors, "spec.nodeName="+ranges)
	}
	for _, s := range selectors {
		switch o, err := r.podAt(ctx, s, a); {
		case err != nil:
			return found, err
		case o != nil:
			return *o, nil
		}
	}
	if ranges != "" {
		found.Node = ranges
		found.Notes = append(found.Notes, fmt.Sprintf("%s is in a pod range of node %s (spec.podCIDRs), and no pod has it", a, ranges))
		return found, nil
	}
	return r.endpointAt(ctx, found)
}

// podAt returns the pod that has an address, among those of a field selector; nil if none.
// Pods in their node's network are found as the node.
func (r *Resolver) podAt(ctx context.Context, selector string, a netip.Addr) (*Object, error) {
	list, err := r.API.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, permissionError(err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		if !isCompleted(p) && !p.Spec.HostNetwork && p.Spec.NodeName != "" && slices.Contains(podAddresses(p), a) {
			o, err := podObject(p)
			o.Addresses = []netip.Addr{a}
			return &o, err
		}
	}
	return nil, nil
}

// maxSlicesListed is how many EndpointSlices are read in one request.
const maxSlicesListed = 500

// endpointAt adds the node of an address that an EndpointSlice has.
func (r *Resolver) endpointAt(ctx context.Context, o Object) (Object, error) {
	options := metav1.ListOptions{Limit: maxSlicesListed}
	for {
		list, err := r.API.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return o, permissionError(err)
		}
		for i := range list.Items {
			if e := endpointWith(&list.Items[i], o.Addresses[0]); e != nil && e.NodeName != nil {
				return endpointObject(e, o.Addresses[0]), nil
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return o, nil
		}
	}
}

func endpointWith(s *discoveryv1.EndpointSlice, a netip.Addr) *discoveryv1.Endpoint {
	for i := range s.Endpoints {
		for _, text := range s.Endpoints[i].Addresses {
			if b, err := netip.ParseAddr(text); err == nil && b.Unmap() == a {
				return &s.Endpoints[i]
			}
		}
	}
	return nil
}

// endpointObject returns what has an address of an endpoint: a pod, if the endpoint names it.
func endpointObject(e *discoveryv1.Endpoint, a netip.Addr) Object {
	o := Object{Kind: KindAddress, Addresses: []netip.Addr{a}}
	if e.NodeName != nil {
		o.Node = *e.NodeName
	}
	if t := e.TargetRef; t != nil && t.Kind == "Pod" {
		o.Kind, o.Namespace, o.Name = KindPod, t.Namespace, t.Name
	}
	return o
}

// EndpointObjects returns the pod, or the bare address, behind each address in EndpointSlices.
// Several slices may have an address; the one that names a pod counts.
func EndpointObjects(list []discoveryv1.EndpointSlice) map[netip.Addr]Object {
	out := map[netip.Addr]Object{}
	for i := range list {
		for k := range list[i].Endpoints {
			e := &list[i].Endpoints[k]
			for _, text := range e.Addresses {
				a, err := netip.ParseAddr(text)
				if a = a.Unmap(); err == nil && out[a].Kind != KindPod {
					out[a] = endpointObject(e, a)
				}
			}
		}
	}
	return out
}

// Slices returns the EndpointSlices of a Service.
func (r *Resolver) Slices(ctx context.Context, namespace, name string) ([]discoveryv1.EndpointSlice, error) {
	list, err := r.API.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
	if err != nil {
		return nil, permissionError(err)
	}
	return list.Items, nil
}

// isUsed reports whether an endpoint of a slice may get connections.
func isUsed(e *discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

// isServing reports whether an endpoint of a slice gets connections if none is ready.
func isServing(e *discoveryv1.Endpoint) bool {
	return e.Conditions.Serving != nil && *e.Conditions.Serving && e.Conditions.Terminating != nil && *e.Conditions.Terminating
}

// Entry returns the node where packets of a client outside the cluster enter it: the named
// one, or the one that has the destination; else, since any may be it, the node of an
// endpoint, or the first.
func (r *Resolver) Entry(ctx context.Context, d Destination, name string) (o Object, err error) {
	if name == "" {
		name = d.Node
	}
	if name != "" {
		return r.node(ctx, name)
	}
	nodes, err := r.API.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return o, permissionError(err)
	}
	if len(nodes.Items) == 0 {
		return o, fmt.Errorf("the cluster has no nodes")
	}
	at := 0
	if d.Service != nil {
		if at, err = r.nodeOfEndpoint(ctx, d.Service, nodes.Items); err != nil {
			return o, err
		}
	}
	o = nodeObject(&nodes.Items[at])
	o.Notes = append(o.Notes, fmt.Sprintf("the answer is for a client whose packets enter the cluster at node %s; --node names another", o.Name))
	return o, nil
}

// nodeOfEndpoint returns the index of a node with an endpoint that is ready, or else that serves
// while it terminates; 0 if none has.
func (r *Resolver) nodeOfEndpoint(ctx context.Context, s *corev1.Service, nodes []corev1.Node) (int, error) {
	list, err := r.Slices(ctx, s.Namespace, s.Name)
	if err != nil {
		return 0, err
	}
	for _, is := range []func(*discoveryv1.Endpoint) bool{isUsed, isServing} {
		for i := range nodes {
			for _, slice := range list {
				if slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
					return is(&e) && e.NodeName != nil && *e.NodeName == nodes[i].Name
				}) {
					return i, nil
				}
			}
		}
	}
	return 0, nil
}
