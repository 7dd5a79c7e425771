package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/cmd/components"
	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/daemon"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/process"
	"kube-vmap/nft"
)

// TestMoveInAndOutLosesNoPacket is what an operator does on a node, in the order of the
// documentation, with everything that may go wrong once. Clients ask all the time, and
// the failures of each step count.
func TestMoveInAndOutLosesNoPacket(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nftables", "iptables"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			newMove(t, mode).run(t)
		})
	}
}

// A move is a node that moves from kube-proxy to kube-vmap and back.
type move struct {
	*oneNode
	mode, kubeconfig string
	to               traffic.Target
	// clients do not run on the node: the seeded fault is for the node itself.
	clients []*traffic.Client
	theirs  *daemon.Daemon
}

func newMove(t *testing.T, mode string) *move {
	t.Helper()
	clustertest.Program(t)
	c := prepareOneNode(t, clustertest.Alone, 2) // shadow compares the Services of all tests
	m := &move{oneNode: c, mode: mode, clients: []*traffic.Client{c.clients[0], c.clients[2]}}
	m.to = c.manualService(t, "web", c.Lab.Pods[0], c.Lab.Pods[1])
	m.kubeconfig = c.Kubeconfig(t, c.Server)
	m.theirs = c.kubeProxy(t, mode, m.kubeconfig)
	return m
}

func (m *move) run(t *testing.T) {
	for _, step := range []struct {
		name string
		do   func(*move, *testing.T)
	}{
		{"preflight", (*move).preflight},
		{"shadow", (*move).shadow},
		{"a take-over that fails", (*move).fail},
		{"a restart after the failure", (*move).refuse},
		{"kube-proxy goes on", (*move).goOn},
		{"cleanup", (*move).cleanUp},
		{"another take-over, killed in the probation", (*move).takeOver},
		{"an upgrade", (*move).upgrade},
		{"the way back", (*move).goBack},
	} {
		crowd := traffic.Start(m.clients...)
		asked := crowd.Add(m.to)
		clustertest.Must(t, asked.Await(clustertest.Context(t)))
		step.do(m, t)
		asked.Remove()
		questions, err := crowd.Stop()
		t.Logf("%s: %d questions", step.name, questions)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
	}
	m.servedBy(t, "kube-proxy")
}

// preflight finds kube-proxy, and nothing that is in the way.
func (m *move) preflight(t *testing.T) {
	name := map[string]string{"nftables": "kube-proxy (nftables)", "iptables": "kube-proxy (iptables-nft)"}[m.mode]
	if i := preflightItem(t, m.Lab.Node, name, "--kubeconfig="+m.kubeconfig); i.Verdict != components.Fine {
		t.Errorf("%+v", i)
	}
}

// shadow finds no difference between kube-proxy and kube-vmap.
func (m *move) shadow(t *testing.T) {
	m.command(t, 0, append([]string{"shadow", "--once", "--proxy-mode=" + m.mode}, m.flags()...)...)
}

// fail takes over while a firewall keeps the node from Services. The node is returned.
func (m *move) fail(t *testing.T) {
	m.theirs.Kill()
	m.runProxy(t, m.kubeconfig)
	_, err := m.proxy.AwaitLog(clustertest.Context(t), 0, "the suspension", process.Message(suspended))
	clustertest.Must(t, err)
	m.node(t, fault, "nft", "-f", "-")
	m.stays(t, 0, "follow no changes until it runs")
	m.node(t, "delete table inet fault", "nft", "-f", "-")
	m.event(t, "TakeoverFailed", func(e *eventsv1.Event) bool {
		return e.Regarding.Name == m.NodeName(m.Lab.Node) && strings.Contains(e.Note, "do not answer that did before") &&
			strings.Contains(e.Note, "does not answer through kube-proxy's rules either") && strings.Contains(e.Note, "table inet fault, chain output")
	})
}

// stays waits until kube-vmap reports, from the n-th line of its log on, that the node is
// returned, and what kube-proxy does.
func (m *move) stays(t *testing.T, n int, kubeProxy string) {
	t.Helper()
	_, err := m.proxy.AwaitLog(t.Context(), n, "the report", func(e process.Entry) bool {
		return e.Message() == "kube-vmap does nothing on this node" && strings.Contains(e["reason"], kubeProxy)
	})
	clustertest.Must(t, err)
	m.servedBy(t, "kube-proxy")
}

// refuse restarts kube-vmap as the kubelet does. It does not try again, is alive, and not ready.
func (m *move) refuse(t *testing.T) {
	clustertest.Must(t, m.proxy.Stop())
	m.runProxy(t, m.kubeconfig)
	m.stays(t, 0, "follow no changes until it runs")
	probe(t, m.proxy, unready)
	m.command(t, 1, "status")
}

// goOn starts kube-proxy again, which gets its ports and follows changes.
func (m *move) goOn(t *testing.T) {
	m.theirs = m.kubeProxy(t, m.mode, m.kubeconfig)
	m.stays(t, 0, "it seems to run")
	m.awaitTheirs(t, m.theirs, "more", m.manualService(t, "more", m.Lab.Pods[1]))
}

// cleanUp allows another attempt. kube-proxy runs meanwhile.
func (m *move) cleanUp(t *testing.T) {
	m.command(t, 0, "cleanup")
	m.servedBy(t, "kube-proxy")
	if err := ended(m.proxy, clustertest.Patience); err == nil {
		t.Error("after the cleanup, the process that stayed ends without an error")
	}
}

// takeOver takes over, and is killed in the probation. The next process ends it.
func (m *move) takeOver(t *testing.T) {
	m.theirs.Kill()
	m.runProxy(t, m.kubeconfig)
	_, err := m.proxy.AwaitLog(clustertest.Context(t), 0, "the suspension", process.Message(suspended))
	clustertest.Must(t, err)
	m.proxy.Kill()
	m.runProxy(t, m.kubeconfig, "--probation=1s")
	_, err = m.proxy.AwaitLog(clustertest.Context(t), 0, "the removal", process.Message("removed what kube-proxy left"))
	clustertest.Must(t, err)
	m.servedBy(t, "kube-vmap")
	checkAnswered(t, m.clients, m.to, "pod-1", "pod-2")
}

// upgrade replaces the process. Package upgrade does it with the version before.
func (m *move) upgrade(t *testing.T) {
	clustertest.Must(t, m.proxy.Stop())
	m.runProxy(t, m.kubeconfig, "--kube-proxy-marker=always")
	clustertest.Must(t, m.proxy.AwaitReady(clustertest.Context(t)))
	checkAnswered(t, m.clients, m.to, "pod-1", "pod-2")
}

// goBack starts kube-proxy before the rules of kube-vmap are removed.
func (m *move) goBack(t *testing.T) {
	clustertest.Must(t, m.proxy.Stop())
	m.theirs = m.kubeProxy(t, m.mode, m.kubeconfig)
	m.command(t, 0, "cleanup")
	checkAnswered(t, m.clients, m.to, "pod-1", "pod-2")
}

// servedBy checks whose rules translate packets now.
func (m *move) servedBy(t *testing.T, proxy string) {
	t.Helper()
	tables, err := truth.Read(m.Lab.Node.Host)
	clustertest.Must(t, err)
	found := m.findKubeProxy(t)
	if len(found.Suspended()) > 0 {
		t.Errorf("still suspended: %v", found.Suspended())
	}
	ours, theirs := tables != (nft.Tables{}), len(found.Awake()) > 0
	if ours != (proxy == "kube-vmap") || theirs != (proxy == "kube-proxy") {
		t.Errorf("rules of kube-vmap: %t, of kube-proxy: %t, want those of %s", ours, theirs, proxy)
	}
}

// flags are those of kube-vmap on the node.
func (m *move) flags() []string {
	return []string{
		"--kubeconfig=" + m.kubeconfig, "--hostname-override=" + m.NodeName(m.Lab.Node), "--cluster-cidr=" + truth.PodRanges,
	}
}

// command runs kube-vmap on the node, which must end with a code, and returns its output.
func (m *move) command(t *testing.T, code int, args ...string) string {
	t.Helper()
	cmd := m.Lab.Node.Command(clustertest.Context(t), clustertest.Program(t), args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("kube-vmap %s: %v, want code %d\n%s", args[0], err, code, out)
	}
	return string(out)
}

// event waits for an event of that reason in the namespace default that suits.
func (c *oneNode) event(t *testing.T, reason string, suits func(*eventsv1.Event) bool) {
	t.Helper()
	ctx := clustertest.Context(t)
	clustertest.Must(t, c.proxy.Daemon.Await(ctx, "an event "+reason, func() error {
		list, err := c.Client.EventsV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if suits(&list.Items[i]) {
				return nil
			}
		}
		return fmt.Errorf("none of %d", len(list.Items))
	}))
}
