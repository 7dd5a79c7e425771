package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Workload is the Pods of an app, each at one of its places, like a Deployment. Its methods
// must not be called concurrently.
type Workload struct {
	// App is the label, and the name of a Service that selects it.
	App string

	ns      *Namespace
	free    []Place
	pods    []placed
	created int
}

type placed struct {
	name string
	at   Place
}

// NewWorkload returns a workload without Pods. It can have as many Pods as places; to roll,
// it needs one more place than Pods.
func (n *Namespace) NewWorkload(app string, places ...Place) *Workload {
	return &Workload{App: app, ns: n, free: places}
}

// Scale creates or deletes Pods until there are n. It deletes the oldest ones first,
// without waiting.
func (w *Workload) Scale(ctx context.Context, n int) error {
	var group errgroup.Group
	group.SetLimit(parallel)
	for len(w.pods) > n {
		p := w.pods[0]
		w.pods, w.free = w.pods[1:], append(w.free, p.at)
		group.Go(func() error { return w.ns.DeletePod(ctx, p.name) })
	}
	for len(w.pods) < n {
		p, err := w.next()
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		w.pods = append(w.pods, p)
		group.Go(func() error {
			_, err := w.ns.CreatePod(ctx, p.name, w.App, p.at)
			return err
		})
	}
	return group.Wait()
}

// Roll replaces every Pod, one after the other, the oldest first: the new one is ready before the old
// one is deleted.
func (w *Workload) Roll(ctx context.Context) error {
	for range len(w.pods) {
		p, err := w.next()
		if err != nil {
			return err
		}
		if _, err := w.ns.CreatePod(ctx, p.name, w.App, p.at); err != nil {
			return err
		}
		old := w.pods[0]
		w.pods, w.free = append(w.pods[1:], p), append(w.free, old.at)
		if err := w.ns.DeletePod(ctx, old.name); err != nil {
			return err
		}
	}
	return nil
}

// next returns the place that has been free for longest.
func (w *Workload) next() (placed, error) {
	if len(w.free) == 0 {
		return placed{}, fmt.Errorf("no place left for one more Pod of %s/%s", w.ns.Name, w.App)
	}
	w.created++
	p := placed{fmt.Sprintf("%s-%d", w.App, w.created), w.free[0]}
	w.free = w.free[1:]
	return p, nil
}

// container is the name of a Pod's only container.
const container = "main"

// Place is where a Pod runs: on which node, and with which addresses.
type Place struct {
	Node  string
	Addrs []netip.Addr // of one family, or IPv4 and IPv6
}

// At returns the place of a lab's pod, on the node of that name in the API.
func At(node string, p *lab.Pod) Place {
	return Place{Node: node, Addrs: []netip.Addr{p.Addr(model.IPv4), p.Addr(model.IPv6)}}
}

// CreatePod makes a Pod of the app, Running and Ready at a place, that differs from
// others by what is changed.
func (n *Namespace) CreatePod(ctx context.Context, name, app string, at Place, change ...func(*corev1.PodSpec)) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{App: app}},
		Spec: corev1.PodSpec{
			NodeName:   at.Node,
			Containers: []corev1.Container{{Name: container, Image: "none"}},
		},
	}
	for _, do := range change {
		do(&pod.Spec)
	}
	if _, err := n.Client.CoreV1().Pods(n.Name).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	return n.SetPodStatus(ctx, name, Running(at))
}

// SetPodStatus changes a Pod's status by a merge patch, as the kubelet does.
func (n *Namespace) SetPodStatus(ctx context.Context, name string, status corev1.PodStatus) (*corev1.Pod, error) {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return nil, err
	}
	return n.Client.CoreV1().Pods(n.Name).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}

// DeletePod removes a Pod immediately, if it exists.
func (n *Namespace) DeletePod(ctx context.Context, name string) error {
	return ignoreGone(n.Client.CoreV1().Pods(n.Name).Delete(ctx, name, *metav1.NewDeleteOptions(0)))
}

// Running returns the status of a Pod at a place that is Running and Ready.
func Running(at Place) corev1.PodStatus {
	status := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
	}}
	status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: container, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}
	for i, a := range at.Addrs {
		if i == 0 {
			status.PodIP = a.String()
		}
		status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: a.String()})
	}
	return status
}
