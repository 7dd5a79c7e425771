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
	"kube-vmap/integration/lab"
)

// quietTime is how long a proxy is observed that must not do anything.
const quietTime = 3 * time.Second

// unready are the status codes of the probes of a proxy that runs and is not ready.
var unready = map[string]int{"readyz": 503, "livez": 200, "healthz": 503}

// TestStartWithoutPermissionToListChangesNothing starts proxies on a node with the rules of an
// earlier run, some of which are outdated: without an API server, and with an account that has all
// permissions but one, and that one later.
func TestStartWithoutPermissionToListChangesNothing(t *testing.T) {
	t.Parallel()
	c := newOneNode(t, 1)
	kept, goes := c.manualService(t, "kept", c.Lab.Pods[0]), c.manualService(t, "goes", c.Lab.Pods[0])
	c.runProxy(t, c.Kubeconfig(t, c.Server))
	clustertest.Must(t, c.proxy.AwaitReady(clustertest.Context(t)))
	c.proxy.AwaitTruth(t)
	clustertest.Must(t, c.proxy.Stop())
	clustertest.Must(t, c.ns.DeleteService(clustertest.Context(t), "goes"))
	before := meaning(t, c.Lab.Node.Host)
	c.runProxy(t, c.Kubeconfig(t, "https://127.0.0.1:1"))
	checkRulesStay(t, c.proxy, before, unready)
	checkAnswered(t, c.clients, kept, "pod-1")
	checkAnswered(t, c.clients, goes, "pod-1")
	clustertest.Must(t, c.proxy.Stop())

	role := c.role(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	clustertest.Must(t, c.ServiceAccountKubeconfig(clustertest.Context(t), c.ns.Name, "default", c.Server, kubeconfig))

	for kind, without := range map[string]string{"Service": "services", "EndpointSlice": "endpointslices", "Node": "nodes"} {
		t.Run(without, func(t *testing.T) {
			role.may(t, without)
			before := meaning(t, c.Lab.Node.Host)
			comes := c.manualService(t, "comes-"+without, c.Lab.Pods[0])
			c.runProxy(t, kubeconfig)
			checkRulesStay(t, c.proxy, before, unready)
			checkAnswered(t, c.clients, kept, "pod-1")
			lines := linesOf(c.proxy, logUnavailable)
			if len(lines) != 1 || lines[0]["kind"] != kind || !strings.Contains(lines[0]["err"], "forbidden") {
				t.Errorf("it logs %v", lines)
			}
			role.may(t, "")
			clustertest.Must(t, c.proxy.AwaitReady(clustertest.Context(t)))
			c.proxy.AwaitTruth(t)
			checkAnswered(t, c.clients, comes, "pod-1")
			if n := len(linesOf(c.proxy, logAvailable)); n != 1 {
				t.Errorf("the log has %d lines %q", n, logAvailable)
			}
			clustertest.Must(t, c.proxy.Stop())
		})
	}
	checkOutcome(t, c.clients, goes, lab.TimedOut)
	// Older clusters have no ServiceCIDRs, or give no permission to list them.
	t.Run("servicecidrs", func(t *testing.T) {
		role.may(t, "servicecidrs")
		comes := c.manualService(t, "comes-servicecidrs", c.Lab.Pods[0])
		c.runProxy(t, kubeconfig)
		clustertest.Must(t, c.proxy.AwaitReady(clustertest.Context(t)))
		checkAnswered(t, c.clients, comes, "pod-1")
		const without = "API resource unavailable, continuing without it"
		if lines := linesOf(c.proxy, without); len(lines) != 1 || lines[0]["kind"] != "ServiceCIDR" {
			t.Errorf("it logs %v", lines)
		}
	})
}

// runProxy starts a new proxy on the node.
func (c *oneNode) runProxy(t *testing.T, kubeconfig string, flags ...string) {
	t.Helper()
	c.proxy = c.StartProxy(t, c.Lab.Node, kubeconfig, flags...)
}

// checkRulesStay checks for a while that the node of a proxy keeps its rules, and the status codes
// of its probes.
func checkRulesStay(t *testing.T, p *clustertest.Proxy, before string, probes map[string]int) {
	t.Helper()
	ticker := time.NewTicker(quietTime / 20)
	defer ticker.Stop()
	for range 20 {
		if now := meaning(t, p.Truth.Host); now != before {
			t.Fatalf("the rules are now\n%s\nand were\n%s", now, before)
		}
		<-ticker.C
	}
	probe(t, p, probes)
}

// role is the cluster role of the account "default" of a test's namespace.
type role struct {
	c    *oneNode
	name string
}

// role creates the role, without permissions.
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

// may permits to read all resources of the proxy but one, and waits until that is in
// effect.
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
