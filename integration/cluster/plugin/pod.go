package plugin

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
)

// CreateProxyPod creates a pod of the DaemonSet on a node, ready, as its controller,
// kubelet and kube-vmap would.
func (c *Cluster) CreateProxyPod(t testing.TB, node, name string) {
	t.Helper()
	ctx := clustertest.Context(t)
	set, err := c.Client.AppsV1().DaemonSets(Namespace).Get(ctx, Container, metav1.GetOptions{})
	clustertest.Must(t, err)
	pod := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
	pod.Name, pod.Spec.NodeName = name, node
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
	_, err = c.Client.CoreV1().Pods(Namespace).Create(ctx, pod, metav1.CreateOptions{})
	clustertest.Must(t, err)
	status := objects.Running(objects.Place{})
	status.ContainerStatuses[0].Name = Container
	_, err = (&objects.Namespace{Name: Namespace, Client: c.Client}).SetPodStatus(ctx, name, status)
	clustertest.Must(t, err)
}
