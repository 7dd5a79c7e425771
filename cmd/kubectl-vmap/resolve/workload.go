package resolve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podOf returns a pod of a workload, and which one it is. A ready one is preferred; the
// first by name, so that the same command has the same answer.
func (r *Resolver) podOf(ctx context.Context, ref reference) (*corev1.Pod, string, error) {
	s, err := r.selector(ctx, ref)
	if err := r.explainError(ctx, ref.kind, ref.namespace, ref.name, err); err != nil {
		return nil, "", err
	}
	text := metav1.FormatLabelSelector(s)
	list, err := r.API.CoreV1().Pods(ref.namespace).List(ctx, metav1.ListOptions{LabelSelector: text})
	if err != nil {
		return nil, "", permissionError(err)
	}
	all := len(list.Items)
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return isCompleted(&p) || len(podAddresses(&p)) == 0 })
	if len(pods) == 0 {
		return nil, "", fmt.Errorf("%s %s/%s has no pod with an address: %d pods match its selector %s", ref.kind, ref.namespace, ref.name, all, text)
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(readyRank(&a), readyRank(&b)), strings.Compare(a.Name, b.Name))
	})
	ready := ""
	if readyRank(&pods[0]) != 0 {
		ready = ", none of which is ready"
	}
	return &pods[0], fmt.Sprintf("pod %s is one of %d of %s %s/%s%s", pods[0].Name, len(pods), ref.kind, ref.namespace, ref.name, ready), nil
}

func readyRank(p *corev1.Pod) int {
	if isReady(p) {
		return 0
	}
	return 1
}

func (r *Resolver) selector(ctx context.Context, ref reference) (*metav1.LabelSelector, error) {
	apps := r.API.AppsV1()
	switch ref.kind {
	case KindDeployment:
		d, err := apps.Deployments(ref.namespace).Get(ctx, ref.name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return d.Spec.Selector, nil
	case KindStatefulSet:
		s, err := apps.StatefulSets(ref.namespace).Get(ctx, ref.name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return s.Spec.Selector, nil
	default:
		d, err := apps.DaemonSets(ref.namespace).Get(ctx, ref.name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return d.Spec.Selector, nil
	}
}
