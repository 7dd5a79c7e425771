package objects

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-vmap/integration/eventually"
)

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
