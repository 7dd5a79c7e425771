package cluster_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/clustertest"
)

// maxRestart is the limit until a new proxy is ready. It reads the kernel's tables first,
// and follows no changes until then.
const maxRestart = 5 * time.Second

// restart replaces the proxy while there is a Service with the maximum of endpoints.
func (a *abuse) restart(t *testing.T) {
	objects := large(2, 100, 0)
	defer a.clean(t, objects)
	proxy := a.Proxy(t, a.Lab.Node)
	a.mover.start()
	ctx := clustertest.Context(t)
	_, _, err := a.writer.createAll(ctx, objects)
	if err == nil {
		err = a.mover.settle(ctx)
	}
	if ended := a.mover.end(); err == nil {
		err = ended
	}
	proxy.Kill()
	clustertest.Must(t, err)

	start := time.Now()
	proxy = a.Proxy(t, a.Lab.Node)
	took := time.Since(start)
	proxy.Kill()
	t.Logf("a new proxy was ready after %s", took.Round(time.Millisecond))
	if took > maxRestart && !testing.Short() {
		t.Errorf("a new proxy was ready after %s, budget %s", took.Round(time.Millisecond), maxRestart)
	}
}

// clean removes objects, and the rules of a proxy that was killed before it followed.
func (a *abuse) clean(t *testing.T, objects []metav1.Object) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clustertest.Patience)
	defer cancel()
	if _, _, err := a.writer.deleteAll(ctx, objects); err != nil {
		t.Error(err)
	}
	for _, family := range []string{"ip", "ip6"} {
		// It does not exist if the proxy was killed earlier.
		_ = a.Lab.Node.Command(ctx, "nft", "delete", "table", family, "kube-vmap").Run()
	}
}
