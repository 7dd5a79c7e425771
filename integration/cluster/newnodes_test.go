package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
)

// notReady is the taint that deploy/readiness removes.
const notReady = "kube-vmap.io/not-ready"

// TestTaintIsRemovedOnceTheNodeHasItsRules does what the kubelet would do with the pod of
// deploy/readiness: it requests the probe, then runs the containers, whose account may do no more.
func TestTaintIsRemovedOnceTheNodeHasItsRules(t *testing.T) {
	t.Parallel()
	c := newScene(t, clustertest.New, lab.Options{RemotePods: 2})
	node := c.NodeName(c.Lab.Node)
	web := c.manualService(t, "web", c.Lab.RemotePods[0])
	readiness := c.readinessPod(t, node)
	c.registerTainted(t, node)

	// Without an API server, kube-vmap runs but is not ready.
	url := probeURL(readiness)
	starting := c.StartProxy(t, c.Lab.Node, c.Kubeconfig(t, "https://127.0.0.1:1"))
	clustertest.Must(t, starting.AwaitStatus(clustertest.Context(t), url, http.StatusServiceUnavailable))
	starting.Kill()

	p := c.StartProxy(t, c.Lab.Node, c.Kubeconfig(t, c.Server))
	clustertest.Must(t, p.AwaitStatus(clustertest.Context(t), url, http.StatusOK))
	// Other tests change the cluster's Services meanwhile, so this one must be there.
	checkAnswered(t, c.clients[1:2], web, "remote-1") // the node itself

	token, err := c.Kubectl(clustertest.Context(t), "create", "token", readiness.Spec.ServiceAccountName, "-n", readiness.Namespace,
		"--bound-object-kind=Pod", "--bound-object-name="+readiness.Name) // that the kubelet would give it
	clustertest.Must(t, err)
	as := "--token=" + strings.TrimSpace(token)
	for range 2 { // as after a restart of the node
		c.runContainers(t, as, readiness)
		if taints, err := c.Kubectl(t.Context(), "get", "node", node, "-o", "jsonpath={.spec.taints}"); err != nil || taints != "" {
			t.Errorf("taints %s, %v, want none", taints, err)
		}
	}
	c.checkRestricted(t, as, node)
}

// readinessPod applies deploy/readiness and creates its pod on a node.
func (c *scene) readinessPod(t *testing.T, node string) *corev1.Pod {
	t.Helper()
	ctx := clustertest.Context(t)
	_, err := c.Kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(clustertest.Root(t), "deploy", "readiness"))
	clustertest.Must(t, err)
	set, err := c.Client.AppsV1().DaemonSets("kube-system").Get(ctx, "kube-vmap-readiness", metav1.GetOptions{})
	clustertest.Must(t, err)
	pods := c.Client.CoreV1().Pods("kube-system")
	pod := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
	pod.Name, pod.Spec.NodeName = "kube-vmap-readiness-"+node, node
	pod, err = pods.Create(ctx, pod, metav1.CreateOptions{})
	clustertest.Must(t, err)
	t.Cleanup(func() {
		if err := pods.Delete(context.WithoutCancel(ctx), pod.Name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Log(err)
		}
	})
	return pod
}

// checkRestricted checks that the account of deploy/readiness may change one taint of its node only.
func (c *scene) checkRestricted(t *testing.T, as, node string) {
	t.Helper()
	other := c.NodeName(c.Lab.Remote)
	c.registerTainted(t, node)
	c.registerTainted(t, other)
	for command, want := range map[string]string{
		"taint node " + other + " " + notReady + "-":                           "may change the node that its pod runs on only",
		"taint node " + node + " " + notReady + "- dedicated=db:NoSchedule":    "may change the taint " + notReady + " only",
		"taint node " + node + " node.kubernetes.io/out-of-service=:NoExecute": "may change the taint " + notReady + " only",
		"patch node " + node + ` -p {"spec":{"unschedulable":true}}`:           "may change the taint " + notReady + " only",
		"patch node " + node + ` -p {"spec":{"providerID":"cloud://other"}}`:   "may change the taint " + notReady + " only",
		"patch node " + node + ` -p {"spec":{"podCIDR":"10.9.0.0/24"}}`:        "may change the taint " + notReady + " only",
		"label node " + node + " kube-vmap.io/proxy=disabled":                  "may change the taint " + notReady + " only",
		"annotate node " + node + " a=b":                                       "may change the taint " + notReady + " only",
		"delete node " + node:                                                  "is forbidden",
		"get secrets -A":                                                       "is forbidden",
	} {
		// The API server needs a moment to enforce a new policy.
		clustertest.Must(t, eventually.Try(clustertest.Context(t), func() error {
			args := append(strings.Fields(command), as)
			if !strings.HasPrefix(command, "get") {
				args = append(args, "--dry-run=server")
			}
			_, err := c.Kubectl(t.Context(), args...)
			if err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("kubectl %s: error %q, want %q", command, fmt.Sprint(err), want)
			}
			return nil
		}))
	}
}

// registerTainted registers a node again with the taint, as a kubelet with registerWithTaints. It
// has no pod ranges yet, and no node.kubernetes.io/not-ready, which the controller for nodes removes.
func (c *scene) registerTainted(t *testing.T, name string) {
	t.Helper()
	ctx, nodes := clustertest.Context(t), c.Client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, name, metav1.GetOptions{})
	clustertest.Must(t, err)
	clustertest.Must(t, nodes.Delete(ctx, name, metav1.DeleteOptions{}))
	node.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: node.Labels}
	node.Spec = corev1.NodeSpec{Taints: []corev1.Taint{{Key: notReady, Effect: corev1.TaintEffectNoSchedule}}}
	node, err = nodes.Create(ctx, node, metav1.CreateOptions{})
	clustertest.Must(t, err)
	node.Spec.Taints = node.Spec.Taints[:1] // admission adds the other one
	_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
	clustertest.Must(t, err)
}

// runContainers runs kubectl with the arguments of the containers behind the probe.
func (c *scene) runContainers(t *testing.T, as string, pod *corev1.Pod) {
	t.Helper()
	for _, container := range pod.Spec.InitContainers[1:] {
		args := []string{as}
		for _, arg := range container.Args {
			args = append(args, strings.ReplaceAll(arg, "$(NODE_NAME)", pod.Spec.NodeName))
		}
		if _, err := c.Kubectl(clustertest.Context(t), args...); err != nil {
			t.Errorf("container %s: %v", container.Name, err)
		}
	}
}

// probeURL returns what the kubelet requests before it starts the second container.
func probeURL(pod *corev1.Pod) string {
	get := pod.Spec.InitContainers[0].StartupProbe.HTTPGet
	return "http://" + get.Host + ":" + strconv.Itoa(get.Port.IntValue()) + get.Path
}
