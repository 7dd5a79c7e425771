package resolve

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/cmd/inspect/explain/reference"
	"kube-vmap/model"
)

func (r *Resolver) node(ctx context.Context, name string) (Object, error) {
	n, err := r.API.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err := explainError(reference.KindNode, "", name, err); err != nil {
		return Object{}, err
	}
	return nodeObject(n), nil
}

func nodeObject(n *corev1.Node) Object {
	o := Object{Kind: reference.KindNode, Name: n.Name, Node: n.Name}
	for _, t := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range n.Status.Addresses {
			if a.Type == t {
				o.Addresses = appendAddr(o.Addresses, a.Address)
			}
		}
	}
	return o
}

// hasAddress reports whether an address is one of the node's; all are compared, also the
// second of a family.
func hasAddress(n *corev1.Node, a netip.Addr) bool {
	return slices.ContainsFunc(n.Status.Addresses, func(na corev1.NodeAddress) bool {
		b, err := netip.ParseAddr(na.Address)
		return err == nil && b.Unmap() == a
	})
}

func podRangeOf(n *corev1.Node, a netip.Addr) bool {
	return slices.ContainsFunc(append(slices.Clone(n.Spec.PodCIDRs), n.Spec.PodCIDR), func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Contains(a)
	})
}

// podObject returns the object of a pod; the error states why it has no address.
func podObject(p *corev1.Pod) (Object, error) {
	o := Object{Kind: reference.KindPod, Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName}
	o.Addresses = podAddresses(p)
	switch {
	case isCompleted(p):
		return o, fmt.Errorf("%s has ended (status.phase: %s), so its address may belong to another pod now", o,
			p.Status.Phase)
	case p.Spec.NodeName == "":
		return o, fmt.Errorf("%s is on no node yet%s", o, conditionText(p, corev1.PodScheduled))
	case len(o.Addresses) == 0:
		return o, fmt.Errorf("%s on node %s has no address yet (status.phase: %s)%s", o, o.Node, p.Status.Phase,
			conditionText(p, corev1.PodReadyToStartContainers))
	}
	if p.Spec.HostNetwork {
		o.Notes = append(o.Notes, fmt.Sprintf("%s uses the network of its node (spec.hostNetwork: true), so its packets "+
			"are node %s's", o, o.Node))
	}
	return o, nil
}

func isCompleted(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// conditionText returns why a condition is not true; empty if that is not known.
func conditionText(p *corev1.Pod, t corev1.PodConditionType) string {
	if c := condition(p, t); c.Status != corev1.ConditionTrue && c.Reason+c.Message != "" {
		return fmt.Sprintf(": %s: %s", c.Reason, c.Message)
	}
	return ""
}

func podAddresses(p *corev1.Pod) (out []netip.Addr) {
	for _, ip := range p.Status.PodIPs {
		out = appendAddr(out, ip.IP)
	}
	if len(out) == 0 {
		out = appendAddr(out, p.Status.PodIP)
	}
	return out
}

// appendAddr appends an address if it is the first of its family.
func appendAddr(list []netip.Addr, text string) []netip.Addr {
	a, err := netip.ParseAddr(text)
	same := func(b netip.Addr) bool { return model.FamilyOf(a.Unmap()) == model.FamilyOf(b) }
	if err != nil || slices.ContainsFunc(list, same) {
		return list
	}
	return append(list, a.Unmap())
}

func podPorts(p *corev1.Pod) (ports []Port) {
	for _, c := range p.Spec.Containers {
		for _, p := range c.Ports {
			number := uint16(p.ContainerPort) //nolint:gosec // validated by the API server
			ports = append(ports, Port{Name: p.Name, Number: number, Protocol: protocol(p.Protocol)})
		}
	}
	return ports
}

// podOf returns a pod of a workload, and which one it is. A ready one is preferred; the
// first by name, so the same command has the same answer.
func (r *Resolver) podOf(ctx context.Context, ref reference.Reference) (*corev1.Pod, string, error) {
	s, err := r.selector(ctx, ref)
	if err := explainError(ref.Kind, ref.Namespace, ref.Name, err); err != nil {
		return nil, "", err
	}
	text := metav1.FormatLabelSelector(s)
	list, err := r.API.CoreV1().Pods(ref.Namespace).List(ctx, metav1.ListOptions{LabelSelector: text})
	if err != nil {
		return nil, "", permissionError(err)
	}
	all := len(list.Items)
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return isCompleted(&p) || len(podAddresses(&p)) == 0 })
	if len(pods) == 0 {
		return nil, "", fmt.Errorf("%s %s/%s has no pod with an address: %d pods match its selector %s", ref.Kind,
			ref.Namespace, ref.Name, all, text)
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	best, note := pods[0], ", none of which is ready"
	if i := slices.IndexFunc(pods, func(p corev1.Pod) bool {
		return p.DeletionTimestamp == nil && condition(&p, corev1.PodReady).Status == corev1.ConditionTrue
	}); i >= 0 {
		best, note = pods[i], ""
	}
	return &best, fmt.Sprintf("pod %s is one of %d of %s %s/%s%s", best.Name, len(pods), ref.Kind, ref.Namespace,
		ref.Name, note), nil
}

func (r *Resolver) selector(ctx context.Context, ref reference.Reference) (*metav1.LabelSelector, error) {
	apps, get := r.API.AppsV1(), metav1.GetOptions{}
	switch ref.Kind { // with an error, clients return an empty object
	case reference.KindDeployment:
		d, err := apps.Deployments(ref.Namespace).Get(ctx, ref.Name, get)
		return d.Spec.Selector, err
	case reference.KindStatefulSet:
		s, err := apps.StatefulSets(ref.Namespace).Get(ctx, ref.Name, get)
		return s.Spec.Selector, err
	default:
		d, err := apps.DaemonSets(ref.Namespace).Get(ctx, ref.Name, get)
		return d.Spec.Selector, err
	}
}
