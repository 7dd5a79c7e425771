package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// kubeletPort is where kubelets listen that name no other port.
const kubeletPort = 10250

// Kubelet returns where the kubelet of a node listens: its port at all internal addresses of the
// Node object. Only this asks about other nodes than the proxy's own.
func (c *Client) Kubelet(ctx context.Context, node string) (at []netip.AddrPort, err error) {
	client, err := c.resource(corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion())
	if err != nil {
		return nil, err
	}
	var n corev1.Node
	if err := client.Get().MaxRetries(0).Resource("nodes").Name(node).Do(ctx).Into(&n); err != nil {
		return nil, fmt.Errorf("get Node %s: %w", node, err)
	}
	port := uint16(cmp.Or(n.Status.DaemonEndpoints.KubeletEndpoint.Port, kubeletPort))
	for _, a := range n.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			at = append(at, netip.AddrPortFrom(addr, port))
		}
	}
	return at, nil
}
