package resolve

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kube-vmap/cmd/inspect/explain/reference"
)

// At finds what has an address: a node, a pod, an endpoint, or nothing in the cluster.
//
// The API server selects pods by the first of their addresses only, so a pod is searched
// among the pods of the node whose range has the address, too. EndpointSlices are the last
// possibility.
func (r *Resolver) At(ctx context.Context, a netip.Addr) (Object, error) {
	found := Object{Kind: reference.KindAddress, Name: a.String(), Addresses: []netip.Addr{a}}
	nodes, err := r.API.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return found, permissionError(err)
	}
	ranges := ""
	for i := range nodes.Items {
		n := &nodes.Items[i]
		switch {
		case hasAddress(n, a):
			return Object{Kind: reference.KindNode, Name: n.Name, Node: n.Name, Addresses: found.Addresses}, nil
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
		found.Notes = append(found.Notes, fmt.Sprintf("%s is in a pod range of node %s (spec.podCIDRs), and no pod has it",
			a, ranges))
		return found, nil
	}
	return r.endpointAt(ctx, found)
}

// podAt returns the pod that has an address, among the pods of a field selector; nil if none.
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

// endpointAt adds the node of an address that an EndpointSlice has.
func (r *Resolver) endpointAt(ctx context.Context, found Object) (Object, error) {
	list, err := r.API.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return found, permissionError(err)
	}
	if at := EndpointObjects(list.Items)[found.Addresses[0]]; at.Node != "" {
		return at, nil
	}
	return found, nil
}

// EndpointObjects returns the pod, or the bare address, behind each address in EndpointSlices.
// Several slices may have an address; the one that names a pod counts, then one with a node.
func EndpointObjects(list []discoveryv1.EndpointSlice) map[netip.Addr]Object {
	out := map[netip.Addr]Object{}
	for i := range list {
		for k := range list[i].Endpoints {
			e := &list[i].Endpoints[k]
			for _, text := range e.Addresses {
				a, err := netip.ParseAddr(text)
				if a = a.Unmap(); err != nil || out[a].Kind == reference.KindPod {
					continue
				}
				o := Object{Kind: reference.KindAddress, Name: a.String(), Addresses: []netip.Addr{a}}
				o.Node = ptr.Deref(e.NodeName, "")
				if t := e.TargetRef; t != nil && t.Kind == "Pod" {
					o.Kind, o.Namespace, o.Name = reference.KindPod, t.Namespace, t.Name
				}
				if o.Kind == reference.KindPod || o.Node != "" || out[a].Node == "" {
					out[a] = o
				}
			}
		}
	}
	return out
}

// Slices returns the EndpointSlices of a Service.
func (r *Resolver) Slices(ctx context.Context, namespace, name string) ([]discoveryv1.EndpointSlice, error) {
	list, err := r.API.DiscoveryV1().EndpointSlices(namespace).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
	if err != nil {
		return nil, permissionError(err)
	}
	return list.Items, nil
}

// maxEntries is how many nodes are returned where packets may enter the cluster.
const maxEntries = 10

// Entries returns the nodes where packets of a client outside the cluster may enter it: the
// named one, or the one that has the destination; else any of the cluster, of many a sample, with a
// note that says so. If the policy is Local, nodes with endpoints come first, since load balancers
// use these.
func (r *Resolver) Entries(ctx context.Context, d Destination, name string) (out []Object, notes []string, err error) {
	if name = cmp.Or(name, d.Node); name != "" {
		o, err := r.node(ctx, name)
		return []Object{o}, nil, err
	}
	nodes, err := r.API.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	switch {
	case err != nil:
		return nil, nil, permissionError(err)
	case len(nodes.Items) == 0:
		return nil, nil, fmt.Errorf("the cluster has no nodes")
	}
	for i := range nodes.Items {
		out = append(out, nodeObject(&nodes.Items[i]))
	}
	if len(out) <= maxEntries {
		return out, nil, nil
	}
	with := map[string]bool{}
	if s := d.Service; s != nil && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		list, err := r.Slices(ctx, s.Namespace, s.Name)
		if err != nil {
			return nil, nil, err
		}
		for _, o := range EndpointObjects(list) {
			with[o.Node] = true
		}
	}
	slices.SortStableFunc(out, func(a, b Object) int {
		return map[bool]int{true: -1}[with[a.Node]] - map[bool]int{true: -1}[with[b.Node]]
	})
	note := fmt.Sprintf("packets may enter the cluster at %d nodes, of which %d were requested; --node names another one",
		len(out), maxEntries)
	return out[:maxEntries], []string{note}, nil
}
