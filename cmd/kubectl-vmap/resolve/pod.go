package resolve

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/model"
)

func (r *Resolver) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	p, err := r.API.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	return p, r.explainError(ctx, KindPod, namespace, name, err)
}

// podObject returns the object of a pod; the error states why it has no address.
func podObject(p *corev1.Pod) (Object, error) {
	o := Object{Kind: KindPod, Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, Addresses: podAddresses(p)}
	switch {
	case isCompleted(p):
		return o, fmt.Errorf("%s has ended (status.phase: %s), so its address may belong to another pod now", o, p.Status.Phase)
	case p.Spec.NodeName == "":
		return o, fmt.Errorf("%s is on no node yet%s", o, conditionText(p, corev1.PodScheduled))
	case len(o.Addresses) == 0:
		return o, fmt.Errorf("%s on node %s has no address yet (status.phase: %s)%s", o, o.Node, p.Status.Phase,
			conditionText(p, corev1.PodReadyToStartContainers))
	}
	if p.Spec.HostNetwork {
		o.Notes = append(o.Notes, fmt.Sprintf("%s uses the network of its node (spec.hostNetwork: true), so its packets are those of node %s", o, o.Node))
	}
	return o, nil
}

func isCompleted(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func isReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// conditionText returns why a condition is not true; empty if that is not known.
func conditionText(p *corev1.Pod, t corev1.PodConditionType) string {
	for _, c := range p.Status.Conditions {
		if c.Type == t && c.Status != corev1.ConditionTrue && c.Reason+c.Message != "" {
			return fmt.Sprintf(": %s: %s", c.Reason, c.Message)
		}
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

// podPorts returns the ports that the containers of a pod declare.
func podPorts(p *corev1.Pod) (ports []Port) {
	for _, c := range p.Spec.Containers {
		for _, p := range c.Ports {
			number := uint16(p.ContainerPort) //nolint:gosec // validated by the API server
			ports = append(ports, Port{Name: p.Name, Number: number, Protocol: protocol(p.Protocol)})
		}
	}
	return ports
}
