package laptop_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/kubelet"
	"kube-vmap/integration/cluster/laptop"
)

// TestThousandNodes has one node that is dead and one that hangs: each costs its time-out,
// not the answer.
func TestThousandNodes(t *testing.T) {
	const nodes, dead, hanging = 1000, 17, 900
	answers := func(_ context.Context, command []string, stdout, stderr io.Writer) error {
		if strings.Join(command[1:], " ") == "version" {
			_, err := io.WriteString(stdout, "kube-vmap 1.2.3\n")
			return err
		}
		_, _ = io.WriteString(stderr, "kube-vmap: unknown command\n")
		return kubelet.Exit(1)
	}
	start := time.Now()
	c := laptop.NewMany(t, nodes, func(i int) kubelet.Run {
		if i == hanging {
			return func(ctx context.Context, _ []string, _, _ io.Writer) error {
				<-ctx.Done()
				return ctx.Err()
			}
		}
		return answers
	})
	t.Logf("%d nodes after %s", nodes, time.Since(start))
	// No host has this address: the API server gets no answer, not even a refusal.
	clustertest.Must(t, c.SetAddress(clustertest.Context(t), laptop.ManyName(dead), "192.0.2.77"))
	out := c.Kubectl(t, "vmap", "version", "--node-timeout=5s")
	t.Log(out)
	if out.Code != 1 || !strings.Contains(out.Stdout, "kube-vmap 1.2.3 on 998 nodes") {
		t.Error(out)
	}
}
