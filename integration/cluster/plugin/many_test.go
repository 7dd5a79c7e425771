package plugin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/kubelet"
	"kube-vmap/integration/cluster/plugin"
)

// Nodes of [TestThousandNodes] that are not like the others.
const (
	thousand = 1000
	dead     = 17  // no host has its address
	old      = 100 // v0.1.0
	newer    = 200
	notReady = 300
	noPod    = 400
	behind   = 500
	hanging  = 900
)

// TestThousandNodes has nodes that are dead, hang, run other versions of kube-vmap or none:
// each costs what it does not answer, and at most the time-out. Then everything fails that
// can, in turn.
func TestThousandNodes(t *testing.T) {
	t.Parallel()
	start := time.Now()
	c := plugin.NewMany(t, thousand, func(i int) kubelet.Run {
		switch i {
		case old:
			return simulated("0.1.0", nil)
		case newer:
			return simulated("9.0.0", document(i, nodestatus.Schema+1, "9.0.0"))
		case hanging:
			return func(ctx context.Context, _ []string, _, _ io.Writer) error {
				<-ctx.Done()
				return ctx.Err()
			}
		}
		return simulated("of-the-tests", document(i, nodestatus.Schema, "of-the-tests"))
	})
	t.Logf("%d nodes after %s", thousand, time.Since(start))
	ctx := clustertest.Context(t)
	clustertest.Must(t, c.SetAddress(ctx, plugin.ManyName(dead), "192.0.2.77"))
	clustertest.Must(t, c.SetProxyPodReady(ctx, plugin.ManyPod(notReady), false))
	clustertest.Must(t, c.DeleteProxyPod(ctx, plugin.ManyPod(noPod)))

	t.Run("answers of all nodes stream", func(t *testing.T) { testStream(t, c) })
	t.Run("status of all nodes", func(t *testing.T) { testManyStatus(t, c) })
	t.Run("errors", func(t *testing.T) { testErrors(t, c) })
	t.Run("API server gone midway", func(t *testing.T) { testAPIServerGone(t, c) })
}

// simulated returns kube-vmap of a version: without a document it has no command status.
func simulated(version string, document []byte) kubelet.Run {
	return func(_ context.Context, command []string, stdout, stderr io.Writer) error {
		switch {
		case command[1] == "version":
			_, err := fmt.Fprintln(stdout, "kube-vmap", version)
			return err
		case command[1] == "status" && document != nil:
			_, err := stdout.Write(document)
			return err
		}
		_, _ = fmt.Fprintf(stderr, "kube-vmap: unknown command %q for \"kube-vmap\"\n", command[1])
		return kubelet.Exit(1)
	}
}

// services is how many Services each simulated node has.
const services = 20

func document(node, schema int, version string) []byte {
	d := nodestatus.Document{
		Schema: schema, Source: nodestatus.FromDaemon, Time: time.Now(), Node: plugin.ManyName(node), Version: version, Ready: true, Counted: true,
	}
	seen := "999999999"
	if node == behind {
		seen = "1"
	}
	d.Health = &nodestatus.Health{Positions: []nodestatus.Position{{Kind: "Service", ResourceVersion: seen}, {Kind: "EndpointSlice", ResourceVersion: seen}}}
	for i := range services {
		slot := 0
		d.Services = append(d.Services, nodestatus.Service{Namespace: "shop", Name: fmt.Sprintf("web-%02d", i), Ports: []nodestatus.Port{{
			Protocol: "TCP", Family: "IPv4", Scheduler: "random",
			Frontends: []nodestatus.Frontend{{Address: fmt.Sprintf("10.96.0.%d", i+1), Port: 80, Kind: "ClusterIP", Policy: "Cluster", Verdict: "Balance", Masquerade: "never"}},
			Endpoints: []nodestatus.Endpoint{{Address: fmt.Sprintf("10.244.0.%d", i+1), Port: 8080, Slot: &slot, LocalSlot: &slot}},
		}}})
	}
	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return text
}

// timeout is how long the hanging node costs.
const timeout = 5 * time.Second

// testStream reads the rows of all nodes as they come.
func testStream(t *testing.T, c *plugin.Many) {
	cmd := c.Command(clustertest.Context(t), t, c.AdminKubeconfig(), "vmap", "get", "services", "-A", "--all-nodes", "--node-timeout="+timeout.String())
	stdout, err := cmd.StdoutPipe()
	clustertest.Must(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	start := time.Now()
	clustertest.Must(t, cmd.Start())
	var first, half time.Duration
	rows := 0
	const all = (thousand - 5) * services // a node that is not ready answers
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if !strings.Contains(lines.Text(), "web-") {
			continue
		}
		switch rows++; rows {
		case 1:
			first = time.Since(start)
		case all / 2:
			half = time.Since(start)
		}
	}
	err = cmd.Wait()
	took := time.Since(start)
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	t.Logf("first row after %s, half after %s, all %d after %s; %d MiB, %s of CPU\n%s",
		first, half, rows, took, usage.Maxrss>>10, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), stderr.String())
	if err == nil || rows != all || first > took/3 || took < timeout {
		t.Errorf("%d rows, want %d; %v", rows, all, err)
	}
	for node, want := range map[int]string{
		dead: "no route to host", old: "kube-vmap 0.1.0, which has no", newer: "kube-vmap 9.0.0", noPod: "1 node without kube-vmap", hanging: "no answer within 5s",
	} {
		checkLine(t, stderr.String(), plugin.ManyName(node), want)
	}
}

// testManyStatus has the nodes that are not like the others first.
func testManyStatus(t *testing.T, c *plugin.Many) {
	out := c.Kubectl(t, "vmap", "status", "--node-timeout="+timeout.String())
	t.Logf("%d nodes after %s", thousand, out.Took)
	lines := strings.Split(out.Stdout, "\n")
	if out.Code != 2 || len(lines) != thousand+3 || !strings.HasPrefix(lines[thousand+1], "1000 nodes: 4 not known, 2 with problems, 0 with notices") || out.Took > time.Minute {
		t.Fatalf("%d lines, exit code %d after %s: %s\n%s", len(lines), out.Code, out.Took, out.Stderr, strings.Join(lines[max(0, len(lines)-4):], "\n"))
	}
	checkLine(t, lines[thousand], plugin.ManyName(noPod), "1 node without kube-vmap")
	first := strings.Join(lines[1:7], "\n")
	for node, want := range map[int]string{
		dead: "no route to host", old: "kube-vmap 0.1.0, which has no", newer: "kube-vmap 9.0.0", hanging: "no answer within 5s",
		notReady: "is not ready", behind: "behind the API server: ",
	} {
		checkLine(t, first, plugin.ManyName(node), want)
	}
}

// checkLine checks that a line with one text has the other.
func checkLine(t *testing.T, text, about, want string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.Contains(line, about) && strings.Contains(line, want) {
			return
		}
	}
	t.Errorf("no line has %q and %q:\n%s", about, want, text)
}

// testErrors has one cause at a time: each is named, with what is missing.
func testErrors(t *testing.T, c *plugin.Many) {
	const node = "node-0001"
	view := filepath.Join(t.TempDir(), "view")
	clustertest.Must(t, c.UserKubeconfig("viewer", "view-only", c.Server, view))
	_, err := c.Plane.Kubectl(clustertest.Context(t), "create", "clusterrolebinding", "view-only", "--clusterrole=system:node-proxier", "--group=view-only")
	clustertest.Must(t, err)
	nothing := filepath.Join(t.TempDir(), "nothing")
	clustertest.Must(t, c.UserKubeconfig("stranger", "others", c.Server, nothing))
	gone := filepath.Join(t.TempDir(), "gone")
	clustertest.Must(t, c.UserKubeconfig("admin", "system:masters", "https://192.0.2.100:1", gone))

	for _, tc := range []struct {
		name, kubeconfig string
		args             []string
		want             []string
	}{
		{"no permission at all", nothing, nil, []string{"no permission to list nodes", "deploy/kubectl"}},
		{"no permission for pods", view, nil, []string{"no permission to list pods in namespace kube-system", "deploy/kubectl"}},
		{"no kube-vmap", c.AdminKubeconfig(), []string{"--proxy-namespace=default"}, []string{"no kube-vmap found", "namespace default", "--proxy-namespace"}},
		{"no node of that name", c.AdminKubeconfig(), []string{"--node=node-x"}, []string{`"node-x"`}},
		{"no API server", gone, nil, []string{"connection refused"}},
		{"no pod on the node", c.AdminKubeconfig(), []string{"--node=" + plugin.ManyName(noPod)}, []string{plugin.ManyName(noPod), "no pod of kube-vmap is on this node"}},
		{"older version", c.AdminKubeconfig(), []string{"--node=" + plugin.ManyName(old)}, []string{plugin.ManyName(old), "runs kube-vmap 0.1.0", "status"}},
		{"newer schema", c.AdminKubeconfig(), []string{"--node=" + plugin.ManyName(newer)}, []string{plugin.ManyName(newer), "kube-vmap 9.0.0", "use a newer one"}},
		{"dead node", c.AdminKubeconfig(), []string{"--node=" + plugin.ManyName(dead)}, []string{plugin.ManyName(dead) + ": run a command: Internal error occurred: dial tcp 192.0.2.77:10250: connect: no route to host"}},
		{"hanging node", c.AdminKubeconfig(), []string{"--node=" + plugin.ManyName(hanging), "--node-timeout=500ms"}, []string{plugin.ManyName(hanging), "no answer within 500ms"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checkError(t, c.KubectlAs(t, tc.kubeconfig, append([]string{"vmap", "get", "services", "-A"}, tc.args...)...), tc.want)
		})
	}
	t.Run("no permission to exec", func(t *testing.T) {
		_, err := c.Plane.Kubectl(clustertest.Context(t), "create", "role", "-n", "kube-system", "view-only", "--verb=get,list", "--resource=pods")
		clustertest.Must(t, err)
		_, err = c.Plane.Kubectl(clustertest.Context(t), "create", "rolebinding", "-n", "kube-system", "view-only", "--role=view-only", "--group=view-only")
		clustertest.Must(t, err)
		out := c.KubectlAs(t, view, "vmap", "get", "services", "-A")
		checkError(t, out, []string{"no permission", "pods/exec", "deploy/kubectl"})
		// One line for all of them.
		checkError(t, c.KubectlAs(t, view, "vmap", "get", "services", "-A", "--node=node-0001,node-0002,node-0003,node-0004,node-0005"),
			[]string{": no permission to run a command", "5 of 5 nodes did not answer"})
	})
	t.Run("connection cut midway", func(t *testing.T) {
		c.Kubelet.CutAfter(1000)
		defer c.Kubelet.CutAfter(-1)
		checkError(t, c.Kubectl(t, "vmap", "get", "services", "-A", "--node="+node), []string{node, "the answer broke off"})
	})
	t.Run("kubelet down", func(t *testing.T) {
		clustertest.Must(t, c.Kubelet.Down())
		defer func() { clustertest.Must(t, c.Kubelet.Up()) }()
		checkError(t, c.Kubectl(t, "vmap", "get", "services", "-A", "--node="+node), []string{node, "connection refused"})
	})
}

// checkError checks that a command fails soon, with one line or few.
func checkError(t *testing.T, out plugin.Output, want []string) {
	t.Helper()
	if out.Code == 0 || out.Took > 2*timeout || strings.Count(out.Stderr, "\n") > 3 {
		t.Error(out)
	}
	for _, text := range want {
		if !strings.Contains(out.Stderr, text) {
			t.Errorf("stderr lacks %q: %s", text, out)
		}
	}
}

// testAPIServerGone kills the API server while nodes answer.
func testAPIServerGone(t *testing.T, c *plugin.Many) {
	cmd := c.Command(clustertest.Context(t), t, c.AdminKubeconfig(), "vmap", "get", "services", "-A", "--all-nodes", "--node-timeout="+timeout.String())
	stdout, err := cmd.StdoutPipe()
	clustertest.Must(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	clustertest.Must(t, cmd.Start())
	rows := 0
	var killed time.Time
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if strings.Contains(lines.Text(), "web-") {
			rows++
		}
		if rows == 100*services {
			c.KillAPIServer()
			killed = time.Now()
		}
	}
	err = cmd.Wait()
	t.Logf("%d rows, ended %s after the API server\n%s", rows, time.Since(killed), stderr.String())
	if err == nil || rows >= thousand*services || time.Since(killed) > 2*timeout || !strings.Contains(stderr.String(), "nodes did not answer") ||
		strings.Count(stderr.String(), "\n") > 20 {
		t.Error(err)
	}
}
