package plugin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/kubelet"
	"kube-vmap/integration/cluster/plugin"
)

// Nodes of [TestManyNodes] that are not like the others.
const (
	dead     = 17 // no host has its address
	old      = 10 // v0.1.0
	newer    = 20
	notReady = 30
	noPod    = 40
	behind   = 50
	hanging  = 90
)

// many returns how many nodes there are.
func many() int {
	if testing.Short() {
		return 100
	}
	return 1000
}

// TestManyNodes has nodes that are dead, hang, run other versions of kube-vmap or none:
// each costs what it does not answer, and at most the time-out.
func TestManyNodes(t *testing.T) {
	t.Parallel()
	start := time.Now()
	c := plugin.NewMany(t, many(), func(i int) kubelet.Run {
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
	t.Logf("%d nodes after %s", many(), time.Since(start))
	ctx := clustertest.Context(t)
	clustertest.Must(t, c.SetAddress(ctx, plugin.ManyName(dead), "192.0.2.77"))
	clustertest.Must(t, c.SetProxyPodReady(ctx, plugin.ManyPod(notReady), false))
	clustertest.Must(t, c.DeleteProxyPod(ctx, plugin.ManyPod(noPod)))

	t.Run("answers of all nodes stream", func(t *testing.T) { testStream(t, c) })
	t.Run("status of all nodes", func(t *testing.T) { testManyStatus(t, c) })
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
	all := (many() - 5) * services // a node that is not ready answers
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
	t.Logf("%d nodes after %s", many(), out.Took)
	lines := strings.Split(out.Stdout, "\n")
	if out.Code != 2 || len(lines) != many()+3 || !strings.HasPrefix(lines[many()+1], fmt.Sprintf("%d nodes: 4 not known, 2 with problems, 0 with notices", many())) || out.Took > time.Minute {
		t.Fatalf("%d lines, exit code %d after %s: %s\n%s", len(lines), out.Code, out.Took, out.Stderr, strings.Join(lines[max(0, len(lines)-4):], "\n"))
	}
	checkLine(t, lines[many()], plugin.ManyName(noPod), "1 node without kube-vmap")
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
		if rows == many()/10*services {
			c.KillAPIServer()
			killed = time.Now()
		}
	}
	err = cmd.Wait()
	t.Logf("%d rows, ended %s after the API server\n%s", rows, time.Since(killed), stderr.String())
	if err == nil || rows >= many()*services || time.Since(killed) > 2*timeout || !strings.Contains(stderr.String(), "nodes did not answer") ||
		strings.Count(stderr.String(), "\n") > 20 {
		t.Error(err)
	}
}
