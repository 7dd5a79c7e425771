package cluster_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
)

func TestWatchFromBeforeCompactionExpires(t *testing.T) {
	t.Parallel()
	c := clustertest.Alone(t, lab.Options{})
	ctx := clustertest.Context(t)
	ns := c.Namespace(t)
	old, err := ns.CreateService(ctx, objects.Service("old", objects.Ports(80, 8080)...))
	clustertest.Must(t, err)
	last, err := ns.CreateService(ctx, objects.Service("new", objects.Ports(80, 8080)...))
	clustertest.Must(t, err)
	revision, err := c.Compact(ctx)
	clustertest.Must(t, err)
	if at := last.ResourceVersion; fmt.Sprint(revision) < at && len(fmt.Sprint(revision)) <= len(at) {
		t.Errorf("compacted to revision %d, before what was written at %s", revision, at)
	}
	// An API server that has seen them serves old revisions from memory.
	c.KillAPIServer()
	clustertest.Must(t, c.RestartAPIServer(ctx))
	watch, err := c.Client.CoreV1().Services(ns.Name).Watch(ctx, metav1.ListOptions{ResourceVersion: old.ResourceVersion})
	if err == nil {
		defer watch.Stop()
		err = apierrors.FromObject((<-watch.ResultChan()).Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("watch from revision %s: %v, want that it expired", old.ResourceVersion, err)
	}
}

func TestRelayCutsConnections(t *testing.T) {
	t.Parallel()
	p := clustertest.Shared(t)
	l := labtest.New(t, lab.Options{})
	relay, err := p.Relay(l.Outside, 0)
	clustertest.Must(t, err)
	t.Cleanup(func() { clustertest.Must(t, relay.Close()) })

	config := *p.Config
	config.Host = relay.URL()
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return l.Node.DialContext(ctx, network, address)
	}
	client, err := kubernetes.NewForConfig(&config)
	clustertest.Must(t, err)
	ctx := clustertest.Context(t)
	for range 2 {
		watch, err := client.CoreV1().Services("default").Watch(ctx, metav1.ListOptions{})
		clustertest.Must(t, err)
		if event := <-watch.ResultChan(); event.Object == nil {
			t.Fatalf("the watch began with %v", event)
		}
		relay.Cut()
		for range watch.ResultChan() { // until it ends
		}
	}
	if now, ever := relay.Connections(); ever < 2 {
		t.Errorf("%d connections now and %d ever, want at least one before and one after a cut", now, ever)
	}
	clustertest.Must(t, relay.Down())
	if _, err := client.CoreV1().Services("default").List(ctx, metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("through a relay that is down: %v", err)
	}
	clustertest.Must(t, relay.Up())
	_, err = client.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
	clustertest.Must(t, err)
}

func TestFrozenAPIServerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	c := clustertest.Alone(t, lab.Options{})
	clustertest.Must(t, c.FreezeAPIServer(clustertest.Context(t)))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.Client.CoreV1().Services("default").List(ctx, metav1.ListOptions{}); ctx.Err() == nil {
		t.Errorf("a frozen API server answered, with error %v", err)
	}
	clustertest.Must(t, c.ThawAPIServer())
	_, err := c.Client.CoreV1().Services("default").List(clustertest.Context(t), metav1.ListOptions{})
	clustertest.Must(t, err)
}

func TestManifestsCreateTheServiceAccount(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, lab.Options{})
	ctx := clustertest.Context(t)
	c.Deploy(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	clustertest.Must(t, c.ServiceAccountKubeconfig(ctx, "kube-system", "kube-vmap", c.URL(), kubeconfig))
	out, err := c.KubectlAs(ctx, kubeconfig, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
	clustertest.Must(t, err)
	if out != "system:serviceaccount:kube-system:kube-vmap" {
		t.Errorf("the kubeconfig is that of %q", out)
	}
	for what, may := range map[string]string{"watch services": "yes", "delete services": "no"} {
		args := append([]string{"auth", "can-i", "--all-namespaces"}, strings.Fields(what)...)
		out, _ := c.KubectlAs(ctx, kubeconfig, args...) // no is an error
		if !strings.HasPrefix(out, may) {
			t.Errorf("may the account %s? %q, want %q", what, out, may)
		}
	}
}
