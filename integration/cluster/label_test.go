package cluster_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/process"
)

// TestLabelRemovesRulesOnlyWhereKubeProxyServes runs what the label kube-vmap=cleanup runs on a
// node, by the manifest of its DaemonSet: first without a proxy that would serve, where it
// refuses, and again beside a kube-proxy, as the kubelet does. No connection is lost.
func TestLabelRemovesRulesOnlyWhereKubeProxyServes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nftables", "iptables"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			m := newMove(t, mode)
			crowd := traffic.Start(m.clients...)
			asked := crowd.Add(m.to)
			clustertest.Must(t, asked.Await(clustertest.Context(t)))
			m.theirs.Kill()
			m.runProxy(t, m.kubeconfig, "--probation=1s")
			_, err := m.proxy.AwaitLog(clustertest.Context(t), 0, "the removal", process.Message("removed what kube-proxy left"))
			clustertest.Must(t, err)
			clustertest.Must(t, m.proxy.Stop()) // the DaemonSet of the label waits for that

			for range 2 { // the kubelet tries again
				out := m.command(t, exit.Refused, cleanupArgs(t)...)
				if !strings.Contains(out, "kube-proxy has no rules for IPv4 here") || !strings.Contains(out, "start kube-proxy here") {
					t.Errorf("it refuses with %s", out)
				}
				m.servedBy(t, "kube-vmap")
			}
			m.theirs = m.kubeProxy(t, mode, m.kubeconfig)
			m.command(t, 0, cleanupArgs(t)...)
			m.servedBy(t, "kube-proxy")
			asked.Remove()
			questions, err := crowd.Stop()
			t.Logf("%d questions", questions)
			clustertest.Must(t, err)
		})
	}
}

// cleanupArgs returns the arguments of kube-vmap in the DaemonSet of the label.
func cleanupArgs(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/base/cleanup.yaml")
	clustertest.Must(t, err)
	var ds appsv1.DaemonSet
	clustertest.Must(t, yaml.UnmarshalStrict(text, &ds))
	containers := ds.Spec.Template.Spec.InitContainers
	if len(containers) != 1 || len(containers[0].Args) == 0 {
		t.Fatalf("the init containers are %+v", containers)
	}
	return slices.Clone(containers[0].Args)
}
