package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
)

// keeps checks that a client always reaches the same endpoint, at all targets: one over
// each way, because affinity belongs to a port of a Service.
func keeps(t *testing.T, from *traffic.Client, targets ...traffic.Target) {
	t.Helper()
	const each = 6 // one of four is chosen that often by chance once in a thousand times
	var group errgroup.Group
	for _, w := range daemon.Transports() {
		group.Go(func() error {
			first := ""
			for n := range each * len(targets) {
				to := targets[n%len(targets)]
				by, err := answerer(from, w, to)
				if err != nil {
					return err
				}
				if first == "" {
					first = by
				}
				if by != first {
					return fmt.Errorf("%s asks %s over %s: answered by %s, before by %s", from, to.Name, w, by, first)
				}
			}
			return nil
		})
	}
	clustertest.Must(t, group.Wait())
}

// answerer returns who answers a request.
func answerer(from *traffic.Client, w daemon.Transport, to traffic.Target) (string, error) {
	a, err := from.AskRunning(w, to.At(w.Family), traffic.Timeout)
	if err == nil && a.Outcome != lab.Answered {
		err = fmt.Errorf("%s asks %s over %s: %s", from, to.Name, w, a)
	}
	return a.By, err
}

// TestSessionAffinity goes through session affinity at the ClusterIP, at
// the node port and at a load balancer, under both external traffic policies: on,
// off, on again, and forgotten in time.
func TestSessionAffinity(t *testing.T) {
	t.Parallel()
	c := newTwoNodes(t, 2)
	for name, policy := range map[string]func(*corev1.Service){"cluster": externalCluster, "local": externalLocal} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.affinity(t, "sticky-"+name, policy)
		})
	}
}

func (c *twoNodes) affinity(t *testing.T, name string, policy func(*corev1.Service)) {
	t.Helper()
	s := c.create(t, name, balanced, policy, sticky(10800))
	pods := []*lab.Pod{c.Lab.Pods[0], c.Lab.Pods[1], c.Lab.RemotePods[0], c.Lab.RemotePods[1]}
	at := []traffic.Target{traffic.Service(s, port), traffic.NodePort(s, c.Lab.Node), c.balancer(t, name)}
	c.scaled(t, name, c.Places()[0], c.Places()[1], c.At(pods[2]), c.At(pods[3]))
	inside, outside := []*traffic.Client{c.near, c.clients[2]}, c.clients[4]
	everybody := func() {
		t.Helper()
		for _, from := range inside {
			keeps(t, from, at...)
		}
		keeps(t, outside, at[1:]...)
	}
	everybody()
	c.change(t, name, func(s *corev1.Service) {
		s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
	})
	c.awaitRules(t)
	for _, to := range at {
		checkAnswered(t, inside, to, names(pods)...)
	}
	c.change(t, name, sticky(10800))
	c.awaitRules(t)
	everybody()

	// Shorter, so that it expires.
	const forgets = time.Second
	c.change(t, name, sticky(int32(forgets/time.Second)))
	c.awaitRules(t)
	c.forgotten(t, c.near, at[0], forgets)
	c.forgotten(t, outside, at[1], forgets)
}

// forgotten waits until the client has reached another endpoint over every way. It asks so
// rarely that its affinity expires each time.
func (c *twoNodes) forgotten(t *testing.T, from *traffic.Client, to traffic.Target, after time.Duration) {
	t.Helper()
	ctx := clustertest.Context(t)
	ticker := time.NewTicker(after + after/2)
	defer ticker.Stop()
	first, others := map[daemon.Transport]string{}, map[daemon.Transport]bool{}
	for {
		for _, w := range daemon.Transports() {
			by, err := answerer(from, w, to)
			clustertest.Must(t, err)
			if first[w] == "" {
				first[w] = by
			}
			if by != first[w] {
				others[w] = true
			}
		}
		if len(others) == len(first) {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatalf("%s asks %s: answered by others than %v over %v only", from, to.Name, first, others)
		}
	}
}
