package objects

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// Namespace is where objects are made.
type Namespace struct {
	Name   string
	Client kubernetes.Interface
}

// pause is the interval of polling.
const pause = 10 * time.Millisecond

// NewNamespace makes a namespace and waits until Pods can be made in it.
func NewNamespace(ctx context.Context, client kubernetes.Interface, name string) (*Namespace, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("make namespace %s: %w", name, err)
	}
	// Admission refuses Pods before the account is there.
	err := wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the service account of namespace %s: %w", name, err)
	}
	return &Namespace{Name: name, Client: client}, nil
}

// Delete removes the namespace with all that is in it, if it is there, without waiting.
func (n *Namespace) Delete(ctx context.Context) error {
	// The namespace controller would wait for Pods to end, and no kubelet reports that.
	err := n.Client.CoreV1().Pods(n.Name).DeleteCollection(ctx, atOnce(), metav1.ListOptions{})
	if err == nil {
		err = ignoreGone(n.Client.CoreV1().Namespaces().Delete(ctx, n.Name, metav1.DeleteOptions{}))
	}
	if err != nil {
		return fmt.Errorf("remove namespace %s: %w", n.Name, err)
	}
	return nil
}

func atOnce() metav1.DeleteOptions {
	none := int64(0)
	return metav1.DeleteOptions{GracePeriodSeconds: &none}
}

// explain adds to an error what was attempted on which object.
func (n *Namespace) explain(err error, what, kind, name string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %s/%s: %w", what, kind, n.Name, name, err)
}

// ignoreGone returns nil if the object does not exist.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
