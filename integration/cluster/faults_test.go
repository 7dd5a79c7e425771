package cluster_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
)

const (
	// recoveryTimeout is when the rule set must be correct after the API is reachable
	// again. The longest backoff of a kind is 20 s, and 1.6 s may be needed for a list
	// from a new server.
	recoveryTimeout = 25 * time.Second
	// maxLogDelay is when it must be correct after the log line that the API is available.
	maxLogDelay = 5 * time.Second
)

// outage returns how long the API server does not run or is frozen: longer than the four seconds
// in which a proxy notices a silent connection.
func outage() time.Duration {
	if testing.Short() {
		return 6 * time.Second
	}
	return 20 * time.Second
}

// Messages that a proxy logs.
const (
	logUnavailable = "API server unavailable, keeping the last known objects"
	logAvailable   = "API server available again"
)

// faults is a cluster whose control plane fails. The proxy of node-1 reaches it through a
// relay. Each fault has new proxies, on the rules of the former ones, because a proxy that
// has seen a failure is in backoff and logs less.
type faults struct {
	*twoNodes
	relay *plane.Relay
	crowd *traffic.Crowd
}

func TestRulesSurviveAPIServerFailures(t *testing.T) {
	t.Parallel()
	clustertest.Program(t)
	const pods = 2
	c := &faults{twoNodes: prepareTwoNodes(t, clustertest.Alone, pods)}
	var err error
	c.relay, err = c.Relay(c.Lab.Outside, 0)
	clustertest.Must(t, err)
	t.Cleanup(func() { clustertest.Must(t, c.relay.Close()) })
	c.crowd = traffic.Start(c.clients...)
	t.Cleanup(func() {
		questions, err := c.crowd.Stop()
		t.Logf("%d questions asked all the time", questions)
		if err != nil {
			t.Error(err)
		}
	})
	always := c.crowd.Add(c.manualService(t, "always", c.Lab.Pods[0], c.Lab.RemotePods[0]))

	for _, s := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"killed and restarted with other objects", c.killed},
		{"compacted without a watch", c.compacted},
		{"cut off every second", c.cutOff},
		{"frozen", c.frozen},
	} {
		t.Run(s.name, func(t *testing.T) {
			c.start(t)
			clustertest.Must(t, always.Await(clustertest.Context(t)))
			s.do(t)
		})
	}
}

// start starts the proxies. That of node-2 closes a silent connection within four
// seconds; the default of client-go is 45.
func (c *faults) start(t *testing.T) {
	t.Helper()
	for i, n := range []*lab.Node{c.Lab.Node, c.Lab.Remote} {
		c.proxies[i] = c.Run(t, n, process.Config{
			Args: []string{
				"--kubeconfig=" + c.Kubeconfig(t, []string{c.relay.URL(), c.URL()}[i]),
				"--hostname-override=" + c.NodeName(n), "--cluster-cidr=" + truth.PodRanges,
			},
			Env: [][]string{nil, {"HTTP2_READ_IDLE_TIMEOUT_SECONDS=2", "HTTP2_PING_TIMEOUT_SECONDS=2"}}[i],
		})
		clustertest.Must(t, c.proxies[i].AwaitReady(clustertest.Context(t)))
	}
}

// killed changes objects before the proxy of node-1 reaches the API server again: it gets
// no events of the deleted ones.
func (c *faults) killed(t *testing.T) {
	goes, changes := c.manualService(t, "goes", c.Lab.RemotePods[0]), c.manualService(t, "changes", c.Lab.Pods[0])
	c.awaitRules(t)
	before := c.rules(t)

	c.KillAPIServer()
	c.checkRulesStay(t, before, outage())
	checkAnswered(t, c.clients, goes, "remote-1")
	checkAnswered(t, c.clients, changes, "pod-1")
	clustertest.Must(t, c.relay.Down())
	clustertest.Must(t, c.RestartAPIServer(clustertest.Context(t)))
	clustertest.Must(t, c.ns.DeleteService(clustertest.Context(t), "goes"))
	c.setEndpoints(t, "changes", c.Lab.Pods[1], c.Lab.RemotePods[1])
	comes := c.manualService(t, "comes", c.Lab.RemotePods[0])
	clustertest.Must(t, c.relay.Up())

	equal := c.awaitEqual(t, recoveryTimeout)
	checkAnswered(t, c.clients, changes, "pod-2", "remote-2")
	checkAnswered(t, c.clients, comes, "remote-1")
	checkOutcome(t, []*traffic.Client{c.near, c.far}, goes, lab.TimedOut)
	for i := range c.proxies {
		if late := equal[i].Sub(c.checkLoggedOnce(t, i)); late > maxLogDelay {
			t.Errorf("node %d follows only %s after it logged %q", i, late.Round(time.Millisecond), logAvailable)
		}
	}
}

// compacted ends with a server that has no events since the proxy of node-1 was cut off:
// neither it nor etcd has kept them.
func (c *faults) compacted(t *testing.T) {
	goes, changes := c.manualService(t, "goes-again", c.Lab.RemotePods[0]), c.manualService(t, "changes-again", c.Lab.Pods[0])
	c.awaitRules(t)
	clustertest.Must(t, c.relay.Down())
	clustertest.Must(t, c.ns.DeleteService(clustertest.Context(t), "goes-again"))
	c.setEndpoints(t, "changes-again", c.Lab.Pods[1])
	comes := c.manualService(t, "comes-too", c.Lab.RemotePods[0])
	_, err := c.Compact(clustertest.Context(t))
	clustertest.Must(t, err)
	c.KillAPIServer()
	clustertest.Must(t, c.RestartAPIServer(clustertest.Context(t)))
	clustertest.Must(t, c.relay.Up())

	c.awaitEqual(t, recoveryTimeout)
	checkAnswered(t, c.clients, changes, "pod-2")
	checkAnswered(t, c.clients, comes, "remote-1")
	checkOutcome(t, []*traffic.Client{c.near, c.far}, goes, lab.TimedOut)
	// A proxy that sent no request meanwhile has noticed nothing, and logs nothing.
	for i, p := range c.proxies {
		if n := len(linesOf(p, logUnavailable)); n > 1 {
			t.Errorf("node %d logs it %d times", i, n)
		}
	}
}

// cutOff changes objects all the time meanwhile. The log must not have a line for each
// cut.
func (c *faults) cutOff(t *testing.T) {
	const cuts, changesEach = 9, 10
	c.manualService(t, "moves", c.Lab.Pods[0])
	ticker := time.NewTicker(time.Second / changesEach)
	defer ticker.Stop()
	for n := range cuts * changesEach {
		<-ticker.C
		if n%changesEach == 0 {
			c.relay.Cut()
		}
		c.setEndpoints(t, "moves", []*lab.Pod{c.Lab.Pods[0], c.Lab.Pods[1], c.Lab.RemotePods[0]}[n%3:]...)
	}
	c.awaitEqual(t, recoveryTimeout)
	if n := len(linesOf(c.proxies[0], logUnavailable)); n > cuts/3 {
		t.Errorf("the log has %d lines about %d cuts", n, cuts)
	}
	if n := len(linesOf(c.proxies[1], logUnavailable)); n > 0 {
		t.Errorf("the proxy that was not cut off logs it %d times", n)
	}
}

// frozen stops the API server without closing connections. The proxy of node-2 notices
// it, that of node-1 does not.
func (c *faults) frozen(t *testing.T) {
	before := c.rules(t)
	clustertest.Must(t, c.FreezeAPIServer(clustertest.Context(t)))
	c.checkRulesStay(t, before, outage())
	_, err := c.proxies[1].AwaitLog(clustertest.Context(t), 0, "that "+logUnavailable, process.Message(logUnavailable))
	clustertest.Must(t, err)
	clustertest.Must(t, c.ThawAPIServer())
	comes := c.manualService(t, "comes-last", c.Lab.RemotePods[0])
	c.awaitEqual(t, recoveryTimeout)
	checkAnswered(t, c.clients, comes, "remote-1")
	if n := len(linesOf(c.proxies[0], logUnavailable)); n > 0 {
		t.Errorf("the proxy that cannot notice logs it %d times", n)
	}
	c.checkLoggedOnce(t, 1)
}

// rules returns what is in both kernels.
func (c *twoNodes) rules(t *testing.T) (all [2]string) {
	t.Helper()
	for i, n := range []*lab.Node{c.Lab.Node, c.Lab.Remote} {
		all[i] = meaning(t, n)
	}
	return all
}

// linesOf returns the lines of a log with a message.
func linesOf(p *clustertest.Proxy, message string) (found []process.Entry) {
	for _, e := range p.Log.Entries(0) {
		if e["msg"] == message {
			found = append(found, e)
		}
	}
	return found
}

// checkLoggedOnce checks that a node logs once that the API is unavailable, and once that
// it is available again, and returns when. An API server that starts has not loaded roles
// yet; that is another reason, and may be logged, too.
func (c *twoNodes) checkLoggedOnce(t *testing.T, node int) (at time.Time) {
	t.Helper()
	// Kinds without changes may be requested later than others.
	ctx, cancel := context.WithTimeout(t.Context(), recoveryTimeout)
	defer cancel()
	if _, err := c.proxies[node].AwaitLog(ctx, 0, "that "+logAvailable, process.Message(logAvailable)); err != nil {
		t.Errorf("node %d: %v", node, err)
		return time.Now()
	}
	for _, message := range []string{logUnavailable, logAvailable} {
		found := slices.DeleteFunc(linesOf(c.proxies[node], message), func(e process.Entry) bool {
			return strings.Contains(e["err"], "forbidden")
		})
		if len(found) != 1 {
			t.Errorf("the log of node %d has %d lines %q: %v", node, len(found), message, found)
			return time.Now()
		}
		var err error
		at, err = time.Parse(time.RFC3339Nano, found[0]["time"])
		clustertest.Must(t, err)
	}
	return at
}

// checkRulesStay checks for some time that both nodes keep their rules, and that their
// proxies are healthy and ready.
func (c *twoNodes) checkRulesStay(t *testing.T, before [2]string, lasts time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if now := c.rules(t); now != before {
			t.Fatalf("the rules are now\n%s\n%s\nand were\n%s\n%s", now[0], now[1], before[0], before[1])
		}
		for _, p := range c.proxies {
			probe(t, p, map[string]int{"readyz": 200, "livez": 200, "healthz": 200})
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// probe checks the status codes of a proxy's probes.
func probe(t *testing.T, p *clustertest.Proxy, want map[string]int) {
	t.Helper()
	for path, code := range want {
		status, body, err := p.Get("http://127.0.0.1:10256/" + path)
		clustertest.Must(t, err)
		if status != code {
			t.Errorf("%s of %s answers %d, want %d: %s", path, p.Truth.Host, status, code, body)
		}
	}
}
