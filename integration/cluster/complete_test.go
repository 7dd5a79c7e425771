package cluster_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
)

// hesitates is how long a proxy is watched that must not do anything.
const hesitates = 3 * time.Second

// TestRestartWithoutAPIServerChangesNothing starts a proxy again on a node with
// the rules of an earlier run, of which some are out of date.
func TestRestartWithoutAPIServerChangesNothing(t *testing.T) {
	t.Parallel()
	c := newOneNode(t, 1)
	relay, err := c.Relay(c.Lab.Outside, 0)
	clustertest.Must(t, err)
	t.Cleanup(func() { clustertest.Must(t, relay.Close()) })
	goes, stays := c.handmade(t, "goes", c.Lab.Pods[0]), c.handmade(t, "stays", c.Lab.Pods[0])
	kubeconfig := c.Kubeconfig(t, relay.URL())
	c.again(t, kubeconfig)
	clustertest.Must(t, c.proxy.AwaitReady(clustertest.Context(t)))
	c.proxy.AwaitTruth(t)
	clustertest.Must(t, c.proxy.Stop())
	before := meaning(t, c.Lab.Node)

	clustertest.Must(t, relay.Down())
	clustertest.Must(t, c.ns.DeleteService(clustertest.Context(t), "goes"))
	comes := c.handmade(t, "comes", c.Lab.Pods[0])
	c.again(t, kubeconfig)
	c.waits(t, before)
	answered(t, c.clients, goes, "pod-1")
	answered(t, c.clients, stays, "pod-1")
	clustertest.Must(t, relay.Up())
	clustertest.Must(t, c.proxy.AwaitReady(clustertest.Context(t)))
	probe(t, c.proxy, map[string]int{"readyz": 200, "livez": 200, "healthz": 200})
	c.proxy.AwaitTruth(t)
	answered(t, c.clients, comes, "pod-1")
	answered(t, c.clients, stays, "pod-1")
	outcome(t, c.clients, goes, lab.TimedOut)
}

// TestStartWithoutPermissionToListChangesNothing gives an account all
// rights but one, and that one later.
func TestStartWithoutPermissionToListChangesNothing(t *testing.T) {
	t.Parallel()
	c := newOneNode(t, 1)
	kept := c.handmade(t, "kept", c.Lab.Pods[0])
	c.again(t, c.Kubeconfig(t, c.Server))
	clustertest.Must(t, c.proxy.AwaitReady(clustertest.Context(t)))
	c.proxy.AwaitTruth(t)
	clustertest.Must(t, c.proxy.Stop())
	role := c.role(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	clustertest.Must(t, c.ServiceAccountKubeconfig(clustertest.Context(t), c.ns.Name, "default", c.Server, kubeconfig))

	for kind, without := range map[string]string{"Service": "services", "EndpointSlice": "endpointslices", "Node": "nodes"} {
		t.Run(without, func(t *testing.T) {
			role.may(t, without)
			before := meaning(t, c.Lab.Node)
			comes := c.handmade(t, "comes-"+without, c.Lab.Pods[0])
			c.again(t, kubeconfig)
			c.waits(t, before)
			answered(t, c.clients, kept, "pod-1")
			told := linesOf(c.proxy, away)
			if len(told) != 1 || told[0]["kind"] != kind || !strings.Contains(told[0]["err"], "forbidden") {
				t.Errorf("the log says %v", told)
			}
			role.may(t, "")
			clustertest.Must(t, c.proxy.AwaitReady(clustertest.Context(t)))
			c.proxy.AwaitTruth(t)
			answered(t, c.clients, comes, "pod-1")
			if n := len(linesOf(c.proxy, back)); n != 1 {
				t.Errorf("the log says %d times that %s", n, back)
			}
			clustertest.Must(t, c.proxy.Stop())
		})
	}
	// Older clusters have no ServiceCIDRs, or do not show them.
	t.Run("servicecidrs", func(t *testing.T) {
		role.may(t, "servicecidrs")
		comes := c.handmade(t, "comes-servicecidrs", c.Lab.Pods[0])
		c.again(t, kubeconfig)
		clustertest.Must(t, c.proxy.AwaitReady(clustertest.Context(t)))
		answered(t, c.clients, comes, "pod-1")
		const without = "API resource unavailable, continuing without it"
		if told := linesOf(c.proxy, without); len(told) != 1 || told[0]["kind"] != "ServiceCIDR" {
			t.Errorf("the log says %v", told)
		}
	})
}

// again starts the proxy anew.
func (c *oneNode) again(t *testing.T, kubeconfig string) {
	t.Helper()
	c.proxy = c.Run(t, c.Lab.Node, process.Config{Args: []string{
		"--kubeconfig=" + kubeconfig, "--hostname-override=" + c.NodeName(c.Lab.Node), "--cluster-cidr=" + truth.PodRanges,
	}})
}

// waits checks that the proxy does nothing for a while, and says so.
func (c *oneNode) waits(t *testing.T, before string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hesitates)
	defer cancel()
	ticker := time.NewTicker(hesitates / 20)
	defer ticker.Stop()
	for {
		if now := meaning(t, c.Lab.Node); now != before {
			t.Fatalf("the rules are now\n%s\nand were\n%s", now, before)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			probe(t, c.proxy, map[string]int{"readyz": 503, "livez": 200, "healthz": 503})
			return
		}
	}
}

// role are the rights of the account "default" of a test's namespace.
type role struct {
	c    *oneNode
	name string
}

// role makes it, without any rights.
func (c *oneNode) role(t *testing.T) *role {
	t.Helper()
	r := &role{c: c, name: c.ns.Name}
	ctx := clustertest.Context(t)
	_, err := c.Client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: r.name}}, metav1.CreateOptions{})
	clustertest.Must(t, err)
	_, err = c.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: r.name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: r.name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: c.ns.Name, Name: "default"}},
	}, metav1.CreateOptions{})
	clustertest.Must(t, err)
	return r
}

// may gives rights to everything the proxy reads, but for one resource, and waits
// until the API server acts by that.
func (r *role) may(t *testing.T, without string) {
	t.Helper()
	ctx := clustertest.Context(t)
	resources := map[string]string{
		"services": "", "nodes": "", "endpointslices": "discovery.k8s.io", "servicecidrs": "networking.k8s.io",
	}
	updated := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: r.name}}
	for resource, group := range resources {
		if resource != without {
			updated.Rules = append(updated.Rules, rbacv1.PolicyRule{
				APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"list", "watch"},
			})
		}
	}
	_, err := r.c.Client.RbacV1().ClusterRoles().Update(ctx, updated, metav1.UpdateOptions{})
	clustertest.Must(t, err)
	for resource, group := range resources {
		clustertest.Must(t, wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			review, err := r.c.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User:               "system:serviceaccount:" + r.c.ns.Name + ":default",
					ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "watch", Group: group, Resource: resource},
				},
			}, metav1.CreateOptions{})
			return err == nil && review.Status.Allowed == (resource != without), err
		}))
	}
}
