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
	// outage is how long the API server is away.
	outage = 30 * time.Second
	// catchesUp is when the rule set is what it should be once the API can be
	// reached again. 20 s are the longest that a kind waits before it is asked for
	// again, and 1.6 s what a new list waits for that a new server may need.
	catchesUp = 25 * time.Second
	// promptly is when it is so after the log says that the API can be read.
	promptly = 5 * time.Second
)

// What a proxy logs of an API that is away.
const (
	away = "API server unavailable, keeping the last known objects"
	back = "API server available again"
)

// faults is a cluster whose control plane does not always work. The proxy of
// node-1 reaches it by a relay. For each fault there are new proxies, on rules that
// stay, because those who had one before wait longer and tell less.
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
	always := c.crowd.Add(c.handmade(t, "always", c.Lab.Pods[0], c.Lab.RemotePods[0]))

	for _, s := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"killed for half a minute and back with other objects", c.killed},
		{"compacted while nobody watched", c.compacted},
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

// start starts the proxies. That of node-2 gives up a silent connection within
// four seconds, where it would take client-go 45.
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

// killed has objects change before the proxy of node-1 sees the API server again:
// there are no events of what went.
func (c *faults) killed(t *testing.T) {
	goes, changes := c.handmade(t, "goes", c.Lab.RemotePods[0]), c.handmade(t, "changes", c.Lab.Pods[0])
	c.settled(t)
	before := c.known(t)

	c.KillAPIServer()
	c.unmoved(t, before, outage)
	answered(t, c.clients, goes, "remote-1")
	answered(t, c.clients, changes, "pod-1")
	clustertest.Must(t, c.relay.Down())
	clustertest.Must(t, c.RestartAPIServer(clustertest.Context(t)))
	clustertest.Must(t, c.ns.DeleteService(clustertest.Context(t), "goes"))
	c.move(t, "changes", c.Lab.Pods[1], c.Lab.RemotePods[1])
	comes := c.handmade(t, "comes", c.Lab.RemotePods[0])
	clustertest.Must(t, c.relay.Up())

	equal := c.equal(t, catchesUp)
	answered(t, c.clients, changes, "pod-2", "remote-2")
	answered(t, c.clients, comes, "remote-1")
	outcome(t, []*traffic.Client{c.near, c.far}, goes, lab.TimedOut)
	for i := range c.proxies {
		if late := equal[i].Sub(c.toldOnce(t, i)); late > promptly {
			t.Errorf("node %d follows only %s after its log says that %s", i, late.Round(time.Millisecond), back)
		}
	}
}

// compacted ends with a server that cannot tell what happened since the proxy of
// node-1 last heard of it: neither it nor etcd has it.
func (c *faults) compacted(t *testing.T) {
	goes, changes := c.handmade(t, "goes-again", c.Lab.RemotePods[0]), c.handmade(t, "changes-again", c.Lab.Pods[0])
	c.settled(t)
	clustertest.Must(t, c.relay.Down())
	clustertest.Must(t, c.ns.DeleteService(clustertest.Context(t), "goes-again"))
	c.move(t, "changes-again", c.Lab.Pods[1])
	comes := c.handmade(t, "comes-too", c.Lab.RemotePods[0])
	_, err := c.Compact(clustertest.Context(t))
	clustertest.Must(t, err)
	c.KillAPIServer()
	clustertest.Must(t, c.RestartAPIServer(clustertest.Context(t)))
	clustertest.Must(t, c.relay.Up())

	c.equal(t, catchesUp)
	answered(t, c.clients, changes, "pod-2")
	answered(t, c.clients, comes, "remote-1")
	outcome(t, []*traffic.Client{c.near, c.far}, goes, lab.TimedOut)
	// Neither may have asked within these seconds, and so neither need tell of them.
	for i, p := range c.proxies {
		if n := len(linesOf(p, away)); n > 1 {
			t.Errorf("node %d tells of it %d times", i, n)
		}
	}
}

// cutOff changes objects all the time meanwhile, and the log must not tell of
// each cut.
func (c *faults) cutOff(t *testing.T) {
	const cuts, changesEach = 15, 10
	c.handmade(t, "moves", c.Lab.Pods[0])
	ticker := time.NewTicker(time.Second / changesEach)
	defer ticker.Stop()
	for n := range cuts * changesEach {
		<-ticker.C
		if n%changesEach == 0 {
			c.relay.Cut()
		}
		c.move(t, "moves", []*lab.Pod{c.Lab.Pods[0], c.Lab.Pods[1], c.Lab.RemotePods[0]}[n%3:]...)
	}
	c.equal(t, catchesUp)
	if n := len(linesOf(c.proxies[0], away)); n > cuts/3 {
		t.Errorf("the log tells %d times of %d cuts", n, cuts)
	}
	if n := len(linesOf(c.proxies[1], away)); n > 0 {
		t.Errorf("who was not cut off tells of it %d times", n)
	}
}

// frozen has the proxy of node-2 notice it, that of node-1 not.
func (c *faults) frozen(t *testing.T) {
	before := c.known(t)
	clustertest.Must(t, c.FreezeAPIServer(clustertest.Context(t)))
	c.unmoved(t, before, 20*time.Second)
	clustertest.Must(t, c.ThawAPIServer())
	comes := c.handmade(t, "comes-last", c.Lab.RemotePods[0])
	c.equal(t, catchesUp)
	answered(t, c.clients, comes, "remote-1")
	if n := len(linesOf(c.proxies[0], away)); n > 0 {
		t.Errorf("who could not notice tells of it %d times", n)
	}
	c.toldOnce(t, 1)
}

// known is what both kernels hold.
func (c *twoNodes) known(t *testing.T) (all [2]string) {
	t.Helper()
	for i, n := range []*lab.Node{c.Lab.Node, c.Lab.Remote} {
		all[i] = meaning(t, n)
	}
	return all
}

// linesOf are those of a log with a message.
func linesOf(p *clustertest.Proxy, message string) (found []process.Entry) {
	for _, e := range p.Log.Entries(0) {
		if e["msg"] == message {
			found = append(found, e)
		}
	}
	return found
}

// toldOnce checks that the log of a node tells once that the API is away, and once
// that it is back, and returns when the latter was. An API server that starts knows
// of no rights at first, which is another reason and may be told, too.
func (c *twoNodes) toldOnce(t *testing.T, node int) (at time.Time) {
	t.Helper()
	// Kinds of which nothing changed may be asked for later than others.
	ctx, cancel := context.WithTimeout(t.Context(), catchesUp)
	defer cancel()
	if _, err := c.proxies[node].AwaitLog(ctx, 0, "that "+back, process.Message(back)); err != nil {
		t.Errorf("node %d: %v", node, err)
		return time.Now()
	}
	for _, message := range []string{away, back} {
		found := slices.DeleteFunc(linesOf(c.proxies[node], message), func(e process.Entry) bool {
			return strings.Contains(e["err"], "forbidden")
		})
		if len(found) != 1 {
			t.Errorf("the log of node %d says %d times that %s: %v", node, len(found), message, found)
			return time.Now()
		}
		var err error
		at, err = time.Parse(time.RFC3339Nano, found[0]["time"])
		clustertest.Must(t, err)
	}
	return at
}

// unmoved checks for a time that both nodes keep their rules, and that their
// proxies are healthy and ready.
func (c *twoNodes) unmoved(t *testing.T, before [2]string, lasts time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if now := c.known(t); now != before {
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

// probe checks what a proxy answers to probes.
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
