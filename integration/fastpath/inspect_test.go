package fastpath

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	explained "kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// onFastPath is how many of one connection of each transport are on the fast path: those over
// TCP and UDP, of both families.
const onFastPath = 4

// flowsOfAll opens a connection of each transport to the Service.
func (m *machine) flowsOfAll() map[daemon.Transport]*lab.Flow {
	m.t.Helper()
	flows := map[daemon.Transport]*lab.Flow{}
	for _, w := range daemon.Transports() {
		flows[w] = m.open(m.Pods[2].Host, w, m.service.ClusterAddrPort(w.Family))
	}
	return flows
}

// isFast reports whether connections of a transport may take the fast path.
func isFast(w daemon.Transport) bool { return w.Protocol != model.SCTP }

func TestCommandsCountConnectionsOnTheFastPath(t *testing.T) {
	m := newMachine(t, lab.Options{Pods: 3}, "pod-1")
	flows := m.flowsOfAll()
	d := m.document()
	if d.FastPath != onFastPath || !d.IsFastPathOn() {
		t.Errorf("%d connections are on the fast path, want %d: %+v", d.FastPath, onFastPath, d.Health.FastPath)
	}
	for _, p := range d.Services[0].Ports {
		want := nodestatus.Traffic{Connections: 1, Active: 1}
		if p.Protocol != "SCTP" {
			want.FastPath = 1
		}
		if p.Traffic != want || p.Frontends[0].Traffic != want || p.Endpoints[0].Traffic != want {
			t.Errorf("%s %s: %+v, want %+v of the port, its ClusterIP and its endpoint", p.Protocol, p.Family, p, want)
		}
	}
	if out := daemon.Run(t, m.Node.Host, "status"); !strings.Contains(out.Stdout, "FAST-PATH     on\n") {
		t.Error(out)
	}
	m.expectMetric("kubevmap_fast_path 1", "kubevmap_fast_path_interfaces 4") // eth0 and the links of three pods
	m.nft("table ip site { chain c { type filter hook forward priority 0; }; }")
	m.Ignore("the fast path is off")
	m.AwaitMessage("the fast path is off")
	for _, f := range flows {
		m.ask(f)
	}
	eventually.Holds(t, "no connection is on the fast path", func() bool {
		d := m.document()
		return d.FastPath == 0 && strings.Contains(d.FastPathReason(), "table ip site")
	})
	m.expectMetric("kubevmap_fast_path 0", "kubevmap_fast_path_interfaces 0")
}

func (m *machine) expectMetric(lines ...string) {
	m.t.Helper()
	page, err := m.Node.Get("http://127.0.0.1:10249/metrics", answer)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, line := range lines {
		if !strings.Contains(page, "\n"+line+"\n") {
			m.t.Errorf("the metrics do not have %q", line)
		}
	}
}

func (m *machine) document() (d nodestatus.Document) {
	m.t.Helper()
	out := daemon.Run(m.t, m.Node.Host, "status", "-o", "json")
	if err := json.Unmarshal([]byte(out.Stdout), &d); err != nil || len(d.Services) != 1 {
		m.t.Fatalf("%v: %v", err, out)
	}
	return d
}

// TestExplainOfConnectionsOnTheFastPath adds a filter after connections were established, and
// compares what it does to them with what explain says.
func TestExplainOfConnectionsOnTheFastPath(t *testing.T) {
	m := newMachine(t, lab.Options{Pods: 3}, "pod-1")
	flows := m.flowsOfAll()
	before := map[daemon.Transport]explained.Answer{}
	for w, f := range flows {
		before[w] = m.explain(w, m.ask(f).Local)
	}
	for _, family := range []string{"ip", "ip6"} { // beside chains with these names the fast path stays on
		m.nft("table " + family + " filter { chain FORWARD { type filter hook forward priority filter; policy drop; }; }")
	}
	for w, f := range flows {
		a, err := f.Ask(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if arrives := a.Outcome == lab.Answered; arrives != isFast(w) {
			t.Errorf("%s: %s", w, a)
		}
		for when, got := range map[string]explained.Answer{"before": before[w], "after": m.explain(w, a.Local)} {
			c := got.Connection
			if c == nil || c.FastPath != isFast(w) || c.FastPath != (c.State == "" && c.ExpiresSeconds == 0) {
				t.Errorf("%s, %s the filter: %+v", w, when, c)
				continue
			}
			if want := isFast(w) || when == "before"; (got.Arrives == explained.Always) != want || len(got.Doubts) > 0 {
				t.Errorf("%s, %s the filter: arrives %s, %q: %+v", w, when, got.Arrives, got.Doubts, got.Outcomes)
			}
			hint := "the fast path is on: after 20 packets"
			if has := strings.Contains(strings.Join(got.Hints, "\n"), hint); has != isFast(w) {
				t.Errorf("%s, %s the filter: hints %q", w, when, got.Hints)
			}
		}
	}
}

// explain returns the answer about a packet of pod-3's connection.
func (m *machine) explain(w daemon.Transport, from netip.AddrPort) (a explained.Answer) {
	m.t.Helper()
	to := fmt.Sprintf("%s/%s", m.service.ClusterAddrPort(w.Family), w.Protocol)
	out := daemon.Run(m.t, m.Node.Host, "explain", "--from", from.String(), "--to", to, "-o", "json", "--observe", "0")
	if err := json.Unmarshal([]byte(out.Stdout), &a); err != nil {
		m.t.Fatalf("%v: %v", err, out)
	}
	return a
}
