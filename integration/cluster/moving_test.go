package cluster_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/programs"
	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/daemon"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/kubeproxy"
)

// Messages of the log.
const (
	suspended = "suspended kube-proxy's rules"
	removed   = "removed what kube-proxy left"
	otherRuns = "another proxy seems to run; its tables are left untouched until it ends"
)

// TestMoveInAndOutLosesNoPacket is what an operator does on a node, in the order of the
// documentation. Clients ask all the time, and the failures of each step count. What else may go
// wrong, and that rules of other programs stay as they are, is tested in integration/takeover.
func TestMoveInAndOutLosesNoPacket(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nftables", "iptables", "ipvs"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			if mode == "ipvs" && os.Getenv("KUBE_VMAP_OWN_MACHINE") == "" {
				t.Skip("SKIPPED, NOTHING TESTED: this needs IPVS, and a machine of its own; `make test-kernels SUITES=cluster` has some")
			}
			newMove(t, mode).run(t)
		})
	}
}

// A move is a node that moves from kube-proxy to kube-vmap and back.
type move struct {
	*scene
	mode, kubeconfig string
	program          string // kube-proxy
	to               traffic.Target
	theirs           *daemon.Daemon
}

func newMove(t *testing.T, mode string) *move {
	t.Helper()
	c := newScene(t, clustertest.Alone, lab.Options{Pods: 3}) // the probation checks Services of all tests
	program, err := plane.Program("kube-proxy")
	clustertest.Must(t, err)
	m := &move{scene: c, mode: mode, program: program}
	m.to = c.manualService(t, "web", c.Lab.Pods[0], c.Lab.Pods[1])
	c.manualService(t, "more", c.Lab.Pods[1])
	m.kubeconfig = c.Kubeconfig(t, c.Server)
	m.kubeProxy(t)
	return m
}

func (m *move) run(t *testing.T) {
	withoutNode := map[string]bool{
		"a take-over that fails": true, // the fault is for the node itself
		// In ipvs mode the node's requests come from addresses on a device, which is removed.
		"another take-over, killed in the probation": m.mode == "ipvs", "kube-proxy comes back and ends": m.mode == "ipvs",
	}
	for _, step := range []struct {
		name string
		do   func(*move, *testing.T)
	}{
		{"preflight", (*move).preflight},
		{"a take-over that fails", (*move).fail},
		{"cleanup", (*move).cleanUp},
		{"another take-over, killed in the probation", (*move).takeOver},
		{"kube-proxy comes back and ends", (*move).comeBack},
		{"the way back", (*move).goBack},
		{"beside a kube-proxy that cannot be seen", (*move).besideHidden},
	} {
		crowd := traffic.Start(m.clients...)
		if withoutNode[step.name] {
			crowd = traffic.Start(m.clients[0], m.clients[2])
		}
		clustertest.Must(t, crowd.Add(clustertest.Context(t), m.to))
		step.do(m, t)
		questions, err := crowd.Stop()
		t.Logf("%s: %d questions", step.name, questions)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
	}
}

// preflight finds kube-proxy, and nothing that is in the way.
func (m *move) preflight(t *testing.T) {
	m.preflightSays(t, fmt.Sprintf("runs (process %d)", m.theirs.PID()))
}

func (m *move) preflightSays(t *testing.T, want string) {
	t.Helper()
	name := map[string]string{
		"nftables": "kube-proxy (nftables)", "iptables": "kube-proxy (iptables-nft)", "ipvs": "kube-proxy (ipvs)",
	}[m.mode]
	i := preflightItem(t, m.Lab.Node, name, "--kubeconfig="+m.kubeconfig)
	if i.Verdict != programs.Fine || !strings.HasPrefix(i.Detail, want) {
		t.Errorf("%+v, want %s", i, want)
	}
}

// fail takes over while a firewall keeps the node from Services. The node is returned.
func (m *move) fail(t *testing.T) {
	m.killTheirs(t)
	m.preflightSays(t, "left over: ")
	m.runProxy(t, m.kubeconfig)
	m.logs(t, suspended)
	m.preflightSays(t, "suspended: ")
	m.hidesNode(t)
	m.node(t, fault, "nft", "-f", "-")
	_, err := m.proxy.AwaitLog(t.Context(), 0, "the return", process.Message("kube-vmap does nothing on this node"))
	clustertest.Must(t, err)
	m.servedBy(t, "kube-proxy")
	m.node(t, "delete table inet fault", "nft", "-f", "-")
	m.event(t, "TakeoverFailed", "do not answer that did before")
}

// hidesNode checks that others do not reach a program of the node by the addresses of a Service, which
// ipvs mode has on a device of the node.
func (m *move) hidesNode(t *testing.T) {
	t.Helper()
	if m.mode != "ipvs" {
		return
	}
	const other = 9999
	server, err := m.Lab.Node.ServeAt(model.TCP, netip.AddrPortFrom(netip.IPv6Unspecified(), other))
	clustertest.Must(t, err)
	for _, from := range []*traffic.Client{m.clients[0], m.clients[2]} {
		err = errors.Join(err, from.Comes(traffic.Target{Name: "unused port", Addrs: m.to.Addrs, Port: other}, lab.Refused,
			traffic.Timeout, traffic.Over(model.TCP)...))
	}
	clustertest.Must(t, errors.Join(err, server.Close()))
}

// logs waits for a line of kube-vmap's log.
func (m *move) logs(t *testing.T, message string) process.Entry {
	t.Helper()
	entry, err := m.proxy.AwaitLog(clustertest.Context(t), 0, message, process.Message(message))
	clustertest.Must(t, err)
	return entry
}

// cleanUp allows another attempt, and ends the process that stayed.
func (m *move) cleanUp(t *testing.T) {
	m.command(t, 0, "cleanup")
	m.servedBy(t, "kube-proxy")
	if err := m.proxy.Wait(); err == nil {
		t.Error("after the cleanup, the process that stayed ends without an error")
	}
}

// takeOver takes over, and is killed in the probation. The next process ends it.
func (m *move) takeOver(t *testing.T) {
	m.killTheirs(t)
	m.runProxy(t, m.kubeconfig)
	m.logs(t, suspended)
	m.proxy.Kill()
	m.runProxy(t, m.kubeconfig, "--probation=1s")
	for _, what := range map[string][]string{
		"nftables": {"table ip kube-proxy", "table ip6 kube-proxy"},
		"iptables": {"ip nat: ", "ip filter: ", "ip mangle: ", "ip6 nat: ", "ip6 filter: ", "ip6 mangle: "},
		"ipvs":     {"ip nat: ", "ip6 filter: ", "virtual servers of IPVS (", "ipsets KUBE-", "device kube-ipvs0"},
	}[m.mode] {
		if logged := m.logs(t, removed)["removed"]; !strings.Contains(logged, what) {
			t.Errorf("it logs that it removed %s, without %s", logged, what)
		}
	}
	m.serves(t)
}

// serves checks that kube-vmap is ready and nothing of kube-proxy is left.
func (m *move) serves(t *testing.T) {
	t.Helper()
	clustertest.Must(t, m.proxy.AwaitReady(clustertest.Context(t)))
	m.proxy.AwaitTruth(t)
	if left := m.left(t); left != "" {
		t.Errorf("left is\n%s", left)
	}
	m.servedBy(t, "kube-vmap")
	checkAnswered(t, m.clients, m.to, "pod-1", "pod-2")
}

// killTheirs kills kube-proxy and waits for its children. Until they begin another program, such as
// iptables-restore, they have its name.
func (m *move) killTheirs(t *testing.T) {
	t.Helper()
	network := func(pid int) string {
		link, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid)) // empty if it has ended
		return link
	}
	here := network(m.theirs.PID())
	m.theirs.Kill()
	eventually.Holds(t, "kube-proxy and its children have ended", func() bool {
		all, _ := programs.ReadProcesses("/proc") // the error is about the node's container runtime
		return !slices.ContainsFunc(all, func(p programs.Process) bool {
			return p.Name == programs.KubeProxy && network(p.PID) == here
		})
	})
}

// comeBack has kube-proxy start, write its rules, and end. Endpoints change then. Packets never
// meet its rules first, and these are suspended and removed again. It uses other ports, so that
// it only shows by the name of its process.
func (m *move) comeBack(t *testing.T) {
	clustertest.Must(t, m.proxy.Stop())
	m.runProxy(t, m.kubeconfig, "--probation=1s")
	clustertest.Must(t, m.proxy.AwaitReady(clustertest.Context(t)))
	m.startKubeProxy(t, m.program, otherPorts...)
	m.awaitTheirs(t, "web", m.to)
	if is, want := m.logs(t, otherRuns)["reason"], fmt.Sprintf("process %d is a kube-proxy", m.theirs.PID()); is != want {
		t.Errorf("the reason is %q, want %q", is, want)
	}
	m.event(t, "OtherProxy", "is a kube-proxy")
	m.preflight(t)
	clustertest.Must(t, m.proxy.AwaitStatus(clustertest.Context(t), daemon.ReadyURL, http.StatusServiceUnavailable))
	m.killTheirs(t)
	m.setEndpoints(t, "more", m.Lab.Pods[0])
	m.logs(t, removed)
	m.serves(t)
}

// goBack starts kube-proxy before the rules of kube-vmap are removed: by the flag of the DaemonSet
// for the label kube-vmap.io/proxy=cleanup, which refuses before.
func (m *move) goBack(t *testing.T) {
	clustertest.Must(t, m.proxy.Stop())
	out := m.command(t, exit.Refused, "--cleanup")
	if !strings.Contains(out, "kube-proxy has no rules for IPv4 here") || !strings.Contains(out, "start kube-proxy here") {
		t.Errorf("it refuses with %s", out)
	}
	m.servedBy(t, "kube-vmap")
	m.kubeProxy(t)
	m.command(t, 0, "--cleanup")
	m.servedBy(t, "kube-proxy")
	checkAnswered(t, m.clients, m.to, "pod-1", "pod-2")
}

// besideHidden starts kube-vmap while a kube-proxy runs that cannot be seen, as in a container with
// other ports. When it writes rules, these are resumed and stay.
func (m *move) besideHidden(t *testing.T) {
	m.killTheirs(t)
	hidden := filepath.Join(t.TempDir(), "hidden")
	clustertest.Must(t, os.Symlink(m.program, hidden))
	m.startKubeProxy(t, hidden, otherPorts...)
	clustertest.Must(t, awaitSync(t, m.theirs, "20249"))
	m.runProxy(t, m.kubeconfig, "--probation=1m")
	m.logs(t, suspended)
	m.manualService(t, "written", m.Lab.Pods[1])
	if reason := m.logs(t, otherRuns)["reason"]; reason != "it writes rules" {
		t.Errorf("the reason is %q", reason)
	}
	more := m.manualService(t, "hidden", m.Lab.Pods[1])
	m.proxy.AwaitTruth(t)
	m.awaitTheirs(t, "hidden", more)
	if found := m.findKubeProxy(t); len(found.Suspended()) > 0 {
		t.Errorf("still suspended: %v", found.Suspended())
	}
	checkAnswered(t, m.clients, more, "pod-2")
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

func (m *move) findKubeProxy(t *testing.T) *kubeproxy.Found {
	t.Helper()
	found, err := kubeproxy.Find(m.Lab.Node.FD())
	clustertest.Must(t, err)
	return found
}

// flags are those of both proxies on the node.
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

// event waits for an event about the node of that reason, with a text.
func (m *move) event(t *testing.T, reason, text string) {
	t.Helper()
	ctx := clustertest.Context(t)
	clustertest.Must(t, m.proxy.Daemon.Await(ctx, "an event "+reason, func() error {
		list, err := m.Client.EventsV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err == nil && !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == m.NodeName(m.Lab.Node) && strings.Contains(e.Note, text)
		}) {
			err = fmt.Errorf("none of %d", len(list.Items))
		}
		return err
	}))
}
