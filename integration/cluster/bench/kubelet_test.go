package bench

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/applyconfigurations/coordination/v1"

	"kube-vmap/integration/lab"
)

// heartbeat is how often a kubelet renews the lease of its node.
const heartbeat = 10 * time.Second

// startKubelet renews the lease of a node, until the returned function is called, which renews it
// for the last time: how long the node controller waits after a fault then differs by its own
// period only.
func (r *rig) startKubelet(n *lab.Node) (stop func() error) {
	ctx, cancel := context.WithCancel(r.Context())
	r.Cleanup(cancel)
	go func() {
		for ticker := time.Tick(heartbeat); ctx.Err() == nil; {
			if err := r.renew(ctx, n); err != nil && ctx.Err() == nil {
				r.Log(err)
			}
			select {
			case <-ctx.Done():
			case <-ticker:
			}
		}
	}()
	return func() error { cancel(); return r.renew(r.Context(), n) }
}

func (r *rig) renew(ctx context.Context, n *lab.Node) error {
	lease := coordinationv1.Lease(r.NodeName(n), corev1.NamespaceNodeLease).
		WithSpec(coordinationv1.LeaseSpec().WithRenewTime(metav1.NowMicro()))
	_, err := r.Client.CoordinationV1().Leases(*lease.Namespace).
		Apply(ctx, lease, metav1.ApplyOptions{FieldManager: "kubelet"})
	if err != nil {
		return fmt.Errorf("renew the lease of %s: %w", n, err)
	}
	return nil
}
