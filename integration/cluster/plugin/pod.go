package plugin

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/objects"
)

// CreateProxyPod creates a pod of the DaemonSet on a node, ready, as its controller,
// kubelet and kube-vmap would.
func (c *Cluster) CreateProxyPod(ctx context.Context, node, name string) error {
	set, err := c.Client.AppsV1().DaemonSets(Namespace).Get(ctx, Container, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get the DaemonSet of kube-vmap: %w", err)
	}
	pod := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
	pod.Name, pod.Spec.NodeName = name, node
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
	if _, err := c.Client.CoreV1().Pods(Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the pod of kube-vmap on %s: %w", node, err)
	}
	status := objects.Running(objects.Place{})
	status.ContainerStatuses[0].Name = Container
	_, err = c.proxies().SetPodStatus(ctx, name, status)
	return err
}

// DeleteProxyPod deletes a pod of kube-vmap.
func (c *Cluster) DeleteProxyPod(ctx context.Context, name string) error {
	return c.proxies().DeletePod(ctx, name)
}

func (c *Cluster) proxies() *objects.Namespace {
	return &objects.Namespace{Name: Namespace, Client: c.Client}
}
