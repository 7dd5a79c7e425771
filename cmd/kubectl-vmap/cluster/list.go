package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
)

// container is kube-vmap's name in its manifests, and selector selects its pods there.
const container = "kube-vmap"

func selector() string { return "app.kubernetes.io/name=" + model.Named(container) }

// Nodes returns all nodes of the cluster, sorted by name. It is an error if no node has a
// pod of kube-vmap.
func (c *Cluster) Nodes(ctx context.Context) ([]nodes.Node, error) {
	list, err := c.metadata.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError("list nodes", err)
	}
	pods, err := c.pods(ctx, "")
	if err != nil {
		return nil, err
	}
	out := make([]nodes.Node, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		out[i] = c.node(n.Name, n.Labels, pods[n.Name])
		out[i].Absent = len(pods[n.Name]) == 0
	}
	if !slices.ContainsFunc(out, func(n nodes.Node) bool { return !n.Absent }) { // also if nodes went before their pods
		return nil, fmt.Errorf("no kube-vmap found: namespace %s has no pods with the label %s on nodes of the cluster; "+
			"--proxy-namespace names another namespace", c.config.Namespace, selector())
	}
	slices.SortFunc(out, func(a, b nodes.Node) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Node returns a node by its name.
func (c *Cluster) Node(ctx context.Context, name string) (nodes.Node, error) {
	n, err := c.metadata.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nodes.Node{}, fmt.Errorf("the cluster has no node %q", name)
	case err != nil:
		return nodes.Node{}, apiError("get node "+name, err)
	}
	pods, err := c.pods(ctx, "spec.nodeName="+name)
	if err != nil {
		return nodes.Node{}, err
	}
	return c.node(name, n.Labels, pods[name]), nil
}

// pods returns kube-vmap's pods that a field selector selects, by node.
func (c *Cluster) pods(ctx context.Context, fields string) (map[string][]corev1.Pod, error) {
	list, err := c.core.Pods(c.config.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: selector(), FieldSelector: fields})
	if err != nil {
		return nil, apiError("list pods in namespace "+c.config.Namespace, err)
	}
	out := map[string][]corev1.Pod{}
	for _, p := range list.Items {
		name := cmp.Or(p.Spec.NodeName, meantFor(&p))
		out[name] = append(out[name], p)
	}
	return out, nil
}

// meantFor returns the node for which a DaemonSet has made a pod, which may have no place there.
func meantFor(p *corev1.Pod) string {
	a := ptr.Deref(ptr.Deref(p.Spec.Affinity, corev1.Affinity{}).NodeAffinity, corev1.NodeAffinity{})
	required := ptr.Deref(a.RequiredDuringSchedulingIgnoredDuringExecution, corev1.NodeSelector{})
	for _, t := range required.NodeSelectorTerms {
		if len(t.MatchFields) > 0 { // its only one is the name
			return strings.Join(t.MatchFields[0].Values, "")
		}
	}
	return ""
}

// node returns a node with the best of its pods: while one replaces another, there are two.
func (c *Cluster) node(name string, labels map[string]string, pods []corev1.Pod) nodes.Node {
	out := nodes.Node{Name: name, Namespace: c.config.Namespace}
	if len(pods) == 0 {
		out.Missing, out.Why = true, "no pod of kube-vmap is on this node"
		if system := labels[corev1.LabelOSStable]; system != "" && system != "linux" {
			out.Why = "kube-vmap does not run on " + system
		}
		return out
	}
	best := slices.MinFunc(pods, func(a, b corev1.Pod) int {
		x, _ := podState(&a)
		y, _ := podState(&b)
		return cmp.Or(cmp.Compare(x, y), b.CreationTimestamp.Compare(a.CreationTimestamp.Time))
	})
	rank, why := podState(&best)
	out.Pod, out.Missing, out.Why = best.Name, rank == notRunning, output.CleanLine(why)
	return out
}

// notRunning is the worst state of a pod.
const notRunning = 3

// podState returns how well kube-vmap's container runs, zero if it is ready, and why not better.
func podState(p *corev1.Pod) (rank int, why string) {
	name := "pod " + p.Name
	ended := func(t *corev1.ContainerStateTerminated) string {
		return fmt.Sprintf("the container in %s has ended with exit code %d", name, t.ExitCode)
	}
	i := slices.IndexFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if i < 0 {
		return notRunning, name + " is " + string(cmp.Or(p.Status.Phase, corev1.PodPending))
	}
	s := p.Status.ContainerStatuses[i]
	switch last := s.LastTerminationState.Terminated; {
	case s.State.Running != nil && s.Ready && p.DeletionTimestamp == nil:
		return 0, ""
	case s.State.Running != nil && s.Ready:
		return 1, ""
	case s.State.Running != nil:
		return 2, name + " is not ready"
	case s.State.Waiting != nil && last != nil:
		return notRunning, name + " is waiting: " + cmp.Or(s.State.Waiting.Reason, "no reason given") + "; " + ended(last)
	case s.State.Waiting != nil:
		return notRunning, name + " is waiting: " + cmp.Or(resolve.InitFailure(p), s.State.Waiting.Reason, "no reason given")
	case s.State.Terminated != nil:
		return notRunning, ended(s.State.Terminated)
	}
	return notRunning, name + " has not started"
}
