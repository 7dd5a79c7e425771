package proxy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Results of questions to a Service, besides the names of hosts that answer.
const (
	isRefused = "refused"
	isSilent  = "silent"
)

// table lists Services as node-1, which is in zone a, must serve them. All hosts in the
// result must answer at some time, and no others. The matrix has the other combinations
// of conditions and policies.
var table = []struct {
	name      string
	local     bool // internalTrafficPolicy: Local
	endpoints string
	result    string
}{
	{name: "endpoints of several slices answer", endpoints: "pod-1 | pod-2", result: "pod-1 pod-2"},
	{name: "without endpoints it is refused", endpoints: "", result: isRefused},

	{name: "Local uses only endpoints on the node", local: true, endpoints: "pod-1 remote-1", result: "pod-1"},
	{name: "Local with remote endpoints only drops", local: true, endpoints: "remote-1", result: isSilent},

	{name: "terminating endpoints answer if none is ready", endpoints: "pod-1/terminating pod-2/unready", result: "pod-1"},
	{name: "an address that is also ready is not terminating", endpoints: "pod-1/terminating | pod-1 | pod-2", result: "pod-1 pod-2"},

	{name: "zone hints restrict traffic to the zone", endpoints: "pod-1/zone=a pod-2/zone=b", result: "pod-1"},
	{name: "a hint may name several zones", endpoints: "pod-1/zone=b,a pod-2/zone=b", result: "pod-1"},
	{name: "an endpoint without a hint disables all hints", endpoints: "pod-1/zone=a pod-2", result: "pod-1 pod-2"},
	{name: "hints for other zones only are ignored", endpoints: "pod-1/zone=b pod-2/zone=c", result: "pod-1 pod-2"},
	{name: "hints of unready endpoints are ignored", endpoints: "pod-1 pod-2 remote-1/unready/zone=a", result: "pod-1 pod-2"},
	{name: "node hints restrict traffic to the node", endpoints: "pod-1/node=node-1 remote-1/node=node-2", result: "pod-1"},
	{name: "node hints take precedence over zone hints", endpoints: "pod-1/zone=b/node=node-1 pod-2/zone=a/node=node-2", result: "pod-1"},
	{name: "zone hints apply if no node hint does", endpoints: "pod-1/zone=a/node=node-3 pod-2/zone=b/node=node-2", result: "pod-1"},
	{name: "Local ignores hints", local: true, endpoints: "pod-1/zone=b pod-2/zone=a remote-1/zone=a", result: "pod-1 pod-2"},
	{name: "terminating endpoints ignore hints", endpoints: "pod-1/terminating/zone=b", result: "pod-1"},
}

// tableServices returns the Services of the table, numbered by their rows.
func tableServices() []daemon.Service {
	var all []daemon.Service
	for i, row := range table {
		all = append(all, daemon.Service{Name: fmt.Sprintf("row-%d", i), Number: i + 1, LocalInside: row.local, EndpointSpec: row.endpoints})
	}
	return all
}

// The source address that a server sees: the client's own, or one of node-1's.
const (
	own  = "own"
	node = "node"
)

// modes are configurations of the proxy, with the source address that a server sees of
// each client: a pod, a process on the node, and the host outside. A pod that reaches
// itself is always masqueraded.
var modes = []struct {
	name               string
	flags              []string
	pod, node, outside string
}{
	{"pods detected by ClusterCIDR", []string{daemon.PodRanges}, own, node, node},
	{"pods detected by NodeCIDR", []string{"--detect-local-mode=NodeCIDR"}, own, node, node},
	{"pods not detected", nil, own, own, own},
	{"masquerade all", []string{daemon.PodRanges, "--masquerade-all"}, node, node, node},
	{
		"pods detected by interfaces",
		[]string{"--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=veth"},
		own, node, node,
	},
}

// TestClusterIPTable uses two modes. The matrix has the others.
func TestClusterIPTable(t *testing.T) {
	l := newLab(t)
	f := daemon.EmptyFolder(t, l)
	writeCluster(f, l)
	f.Put("services", tableServices()...)
	w := watch(t, l.Node.Host)
	for _, m := range modes[:2] {
		t.Run(m.name, func(t *testing.T) {
			d := start(t, l.Node, f, m.flags...)
			w.settles(f, m.flags...)
			clients := []client{{l.Pods[2].Host, m.pod}, {l.Node.Host, m.node}, {l.Outside, m.outside}}
			for _, pod := range l.Pods[:2] {
				clients = append(clients, client{pod.Host, m.pod})
			}
			daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
				for i, s := range tableServices() {
					right := t.Run(table[i].name, func(t *testing.T) { askAll(t, l, clients, w, s.ClusterAddrPort(w.Family), table[i].result) })
					if !right {
						break // timeouts take long, and the others probably fail, too
					}
				}
			})
			d.Stop()
		})
	}
}

// TestBridgeInterfaceDetectsPods tests mode BridgeInterface, which compares a whole name, with
// the interface of one pod.
func TestBridgeInterfaceDetectsPods(t *testing.T) {
	l := newLab(t)
	f := daemon.EmptyFolder(t, l)
	writeCluster(f, l)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1 remote-1"}
	f.Put("web", s)
	flags := []string{"--detect-local-mode=BridgeInterface", "--pod-bridge-interface=" + l.Pods[2].Link}
	start(t, l.Node, f, flags...)
	watch(t, l.Node.Host).settles(f, flags...)
	clients := []client{{l.Pods[2].Host, own}, {l.Pods[1].Host, node}, {l.Node.Host, node}, {l.Outside, node}}
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		askAll(t, l, clients, w, s.ClusterAddrPort(w.Family), s.EndpointSpec)
	})
}

// TestHintsFollowNodeZone changes the zone of node-1 while the proxy runs.
func TestHintsFollowNodeZone(t *testing.T) {
	l, f, w := newScene(t)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1/zone=a pod-2/zone=b"}
	f.Put("web", s)
	start(t, l.Node, f, daemon.PodRanges)
	for _, step := range []struct {
		node     *lab.Node
		zone, by string
	}{
		{l.Node, "", "pod-1 pod-2"},
		{l.Node, "a", "pod-1"},
		{l.Node, "b", "pod-2"},
		{l.Node, "c", "pod-1 pod-2"},
		{l.Remote, "a", "pod-1 pod-2"}, // the zone of another node
	} {
		f.WriteObjects("node", daemon.NodeObject(step.node, step.zone))
		w.settles(f, daemon.PodRanges)
		t.Run(step.node.Name+" in zone "+step.zone, func(t *testing.T) { only(t, l, s, step.by) })
	}
}

// client is a host that asks, and the source address that servers see.
type client struct {
	*lab.Host
	seen string
}

// askAll checks the result for all clients.
func askAll(t *testing.T, l *lab.Lab, clients []client, w daemon.Transport, to netip.AddrPort, result string) {
	t.Helper()
	if result == isSilent {
		silent(t, hostsOf(clients), w, to)
		return
	}
	for _, c := range clients {
		if result == isRefused {
			refused(t, c.Host, w, to)
			continue
		}
		if c.Host == l.Outside && c.seen == own && strings.Contains(result, "remote") {
			continue // node-2 answers directly, so the answer is not translated back
		}
		answers(t, c.Host, w, to, strings.Fields(result), func(a lab.Answer) {
			if want := c.source(l, w.Family, a); a.Seen.Addr() != want {
				t.Errorf("%s asks %s: %s saw %s, want %s", c, to, a.By, a.Seen, want)
			}
		})
	}
}

func hostsOf(clients []client) []*lab.Host {
	var hosts []*lab.Host
	for _, c := range clients {
		hosts = append(hosts, c.Host)
	}
	return hosts
}

// source returns the address that the server must have seen.
func (c client) source(l *lab.Lab, f model.Family, a lab.Answer) netip.Addr {
	switch {
	case c.seen == own && a.By != c.Name:
		return c.Addr(f)
	case strings.HasPrefix(a.By, "remote"):
		return l.Node.Addr(f)
	}
	return l.Node.Gateway(f)
}
