package objects

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-vmap/integration/eventually"
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

// Namespace is where objects are made.
type Namespace struct {
	Name   string
	Client kubernetes.Interface
}

// NewNamespace makes a namespace and waits until Pods can be made in it.
func NewNamespace(ctx context.Context, client kubernetes.Interface, name string) (*Namespace, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	// Admission refuses Pods before the account is there.
	if err := eventually.Try(ctx, func() error {
		_, err := client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	}); err != nil {
		return nil, fmt.Errorf("wait for the service account of namespace %s: %w", name, err)
	}
	return &Namespace{Name: name, Client: client}, nil
}

// Delete removes the namespace with all that is in it, if it is there, without waiting.
func (n *Namespace) Delete(ctx context.Context) error {
	// The namespace controller would wait for Pods to end, and no kubelet reports that.
	if err := n.Client.CoreV1().Pods(n.Name).DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{}); err != nil {
		return err
	}
	return ignoreGone(n.Client.CoreV1().Namespaces().Delete(ctx, n.Name, metav1.DeleteOptions{}))
}

// ignoreGone returns nil if the object does not exist.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
