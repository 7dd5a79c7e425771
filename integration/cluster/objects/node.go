package objects

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// KubeletPort is where the API server finds the kubelet of a node.
const KubeletPort = 10250

// Node returns the object of a lab's node: its addresses and the range of its pods. Change it as
// needed before [CreateNode].
func Node(name string, n *lab.Node) *corev1.Node {
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	for _, f := range model.Families {
		out.Spec.PodCIDRs = append(out.Spec.PodCIDRs, n.PodRange(f).String())
		out.Status.Addresses = append(out.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: n.Addr(f).String()})
	}
	out.Spec.PodCIDR = out.Spec.PodCIDRs[0]
	out.Status.Addresses = append(out.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
	out.Status.DaemonEndpoints.KubeletEndpoint.Port = KubeletPort
	out.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "OfTheTests"}}
	return out
}

// CreateNode makes a Node, with its status.
func CreateNode(ctx context.Context, client kubernetes.Interface, n *corev1.Node) (*corev1.Node, error) {
	made, err := client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	made.Status, made.ResourceVersion = n.Status, "" // whatever the node controller changed meanwhile
	return client.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
}
