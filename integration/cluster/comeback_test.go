package cluster_test

import (
	"errors"
	"net/http"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/daemon"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/process"
)

// TestKubeProxyThatComesBackAndEndsChangesNothing has kube-proxy start again on a node that
// kube-vmap has taken over, write its rules, and end. Endpoints change then. Packets never meet
// its rules first, and these are suspended and removed again.
func TestKubeProxyThatComesBackAndEndsChangesNothing(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nftables", "iptables"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := newOneNode(t, 2)
			to := c.manualService(t, "web", c.Lab.Pods[0], c.Lab.Pods[1])
			kubeconfig := c.Kubeconfig(t, c.Server)
			program, err := plane.Program("kube-proxy")
			clustertest.Must(t, err)
			theirs := c.kubeProxy(t, mode, kubeconfig)
			crowd := traffic.Start(c.clients...)
			asked := crowd.Add(to)
			clustertest.Must(t, asked.Await(clustertest.Context(t)))
			theirs.Kill()
			c.runProxy(t, kubeconfig, "--probation=1s")
			removals := 0
			awaitRemoval := func() {
				t.Helper()
				removals++
				clustertest.Must(t, c.proxy.Await(clustertest.Context(t), "the removal of kube-proxy's rules", func() error {
					if len(c.proxy.Log.Find(0, "removed what kube-proxy left")) < removals {
						return errors.New("no log line")
					}
					return nil
				}))
			}
			awaitRemoval()

			theirs = c.startKubeProxy(t, program, mode, kubeconfig, otherPorts...)
			c.awaitTheirs(t, theirs, "web", to)
			_, err = c.proxy.AwaitLog(clustertest.Context(t), 0, "the other proxy", process.Message(otherRuns))
			clustertest.Must(t, err)
			if status, body, err := c.proxy.Get(daemon.ReadyURL); err != nil || status != http.StatusServiceUnavailable {
				t.Errorf("beside kube-proxy, it is ready: %d, %v\n%s", status, err, body)
			}
			theirs.Kill()
			c.setEndpoints(t, "web", c.Lab.Pods[1])
			c.proxy.AwaitTruth(t)
			checkAnswered(t, c.clients, to, "pod-2")
			awaitRemoval()
			clustertest.Must(t, c.proxy.AwaitReady(clustertest.Context(t)))
			if left := c.left(t); left != "" {
				t.Errorf("left is\n%s", left)
			}
			checkAnswered(t, c.clients, to, "pod-2")
			asked.Remove()
			questions, err := crowd.Stop()
			t.Logf("%d questions", questions)
			clustertest.Must(t, err)
		})
	}
}
