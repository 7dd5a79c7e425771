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

// What comes of asking a Service, beside the names of who may answer.
const (
	isRefused = "refused"
	isSilent  = "silent"
)

// table is what a ClusterIP owes its clients: a Service on node-1, which is in
// zone a, with these endpoints, and what comes of asking it. All in the result
// must answer sooner or later, and nobody else may.
var table = []struct {
	says      string
	local     bool // internalTrafficPolicy: Local
	endpoints string
	result    string
}{
	{says: "one endpoint answers always", endpoints: "pod-1", result: "pod-1"},
	{says: "each of several endpoints answers", endpoints: "pod-1 pod-2", result: "pod-1 pod-2"},
	{says: "endpoints of another node answer", endpoints: "remote-1", result: "remote-1"},
	{says: "endpoints of this node and another answer", endpoints: "pod-1 remote-1", result: "pod-1 remote-1"},
	{says: "endpoints of several slices answer", endpoints: "pod-1 | pod-2", result: "pod-1 pod-2"},
	{says: "without endpoints it is refused", endpoints: "", result: isRefused},

	{says: "Local leaves this node's endpoints", local: true, endpoints: "pod-1 remote-1", result: "pod-1"},
	{says: "Local leaves all of this node's endpoints", local: true, endpoints: "pod-1 pod-2 remote-1", result: "pod-1 pod-2"},
	{says: "Local with endpoints elsewhere only is silent", local: true, endpoints: "remote-1", result: isSilent},
	{says: "Local without any endpoint is refused", local: true, endpoints: "", result: isRefused},

	{says: "an unready endpoint does not answer", endpoints: "pod-1 pod-2/unready", result: "pod-1"},
	{says: "with unready endpoints only it is refused", endpoints: "pod-1/unready", result: isRefused},
	{says: "a terminating endpoint leaves it to ready ones", endpoints: "pod-1 pod-2/terminating", result: "pod-1"},
	{says: "terminating endpoints answer when none is ready", endpoints: "pod-1/terminating pod-2/unready", result: "pod-1"},
	{says: "what terminates and does not serve is refused", endpoints: "pod-1/terminated", result: isRefused},
	{says: "Local falls back to what terminates here", local: true, endpoints: "pod-1/terminating remote-1", result: "pod-1"},
	{says: "Local is silent when only others terminate", local: true, endpoints: "remote-1/terminating", result: isSilent},
	{says: "an address that lives again is not terminating", endpoints: "pod-1/terminating | pod-1 | pod-2", result: "pod-1 pod-2"},

	{says: "zone hints keep to the zone", endpoints: "pod-1/zone=a pod-2/zone=b", result: "pod-1"},
	{says: "a hint may name several zones", endpoints: "pod-1/zone=b,a pod-2/zone=b", result: "pod-1"},
	{says: "one endpoint without a hint ends all hints", endpoints: "pod-1/zone=a pod-2", result: "pod-1 pod-2"},
	{says: "hints for other zones only do not count", endpoints: "pod-1/zone=b pod-2/zone=c", result: "pod-1 pod-2"},
	{says: "hints of unready endpoints do not count", endpoints: "pod-1 pod-2 remote-1/unready/zone=a", result: "pod-1 pod-2"},
	{says: "node hints keep to the node", endpoints: "pod-1/node=node-1 remote-1/node=node-2", result: "pod-1"},
	{says: "node hints go before zone hints", endpoints: "pod-1/zone=b/node=node-1 pod-2/zone=a/node=node-2", result: "pod-1"},
	{says: "zone hints serve where no node hint does", endpoints: "pod-1/zone=a/node=node-3 pod-2/zone=b/node=node-2", result: "pod-1"},
	{says: "Local knows no hints", local: true, endpoints: "pod-1/zone=b pod-2/zone=a remote-1/zone=a", result: "pod-1 pod-2"},
	{says: "what terminates answers whatever the hints", endpoints: "pod-1/terminating/zone=b", result: "pod-1"},
}

// tableServices are the Services of the table, each with the address of its row.
func tableServices() []daemon.Service {
	var all []daemon.Service
	for i, row := range table {
		all = append(all, daemon.Service{Name: fmt.Sprintf("row-%d", i), Number: i + 1, LocalInside: row.local, EndpointSpec: row.endpoints})
	}
	return all
}

// Which source address a server sees: the client's own, or one of node-1's.
const (
	own  = "own"
	node = "node"
)

// modes are the ways to run the proxy, with the source that a server sees of
// each client: a pod, a process on the node, and somebody outside. A pod that
// reaches itself is masqueraded always.
var modes = []struct {
	says               string
	flags              []string
	pod, node, outside string
}{
	{"pods keep their source where they can be told", []string{daemon.PodRanges}, own, node, node},
	{"all keep their source where pods cannot be told", nil, own, own, own},
	{"none keeps its source with --masquerade-all", []string{daemon.PodRanges, "--masquerade-all"}, node, node, node},
	{"pods keep their source where the Node's ranges tell them", []string{"--detect-local-mode=NodeCIDR"}, own, node, node},
	{
		"pods keep their source where their interfaces tell them",
		[]string{"--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=veth"},
		own, node, node,
	},
}

func TestClusterIPsAnswerAsTheTableSays(t *testing.T) {
	l := newLab(t)
	f := daemon.EmptyFolder(t, l)
	f.WriteObjects("cluster", daemon.ServiceCIDR(), daemon.NodeObject(l.Node, "a"))
	f.Put("services", tableServices()...)
	w := watch(t, l.Node.Host)
	for _, m := range modes {
		t.Run(m.says, func(t *testing.T) {
			d := start(t, l.Node, f, m.flags...)
			w.settles(f, m.flags...)
			clients := []client{{l.Pods[2].Host, m.pod}, {l.Node.Host, m.node}, {l.Outside, m.outside}}
			for _, pod := range l.Pods[:2] {
				clients = append(clients, client{pod.Host, m.pod})
			}
			daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
				for i, s := range tableServices() {
					right := t.Run(table[i].says, func(t *testing.T) { askAll(t, l, clients, w, s.ClusterAddrPort(w.Family), table[i].result) })
					if !right {
						break // what does not answer takes long, and the rest may be like it
					}
				}
			})
			d.Stop()
		})
	}
}

// TestOneInterfaceTellsWhoIsAPod has the bridge mode, which compares a whole name,
// with the interface of one pod.
func TestOneInterfaceTellsWhoIsAPod(t *testing.T) {
	l := newLab(t)
	f := daemon.EmptyFolder(t, l)
	f.WriteObjects("cluster", daemon.ServiceCIDR(), daemon.NodeObject(l.Node, "a"))
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

// TestHintsFollowTheNodeObject changes the zone of node-1 under the proxy.
func TestHintsFollowTheNodeObject(t *testing.T) {
	l := newLab(t)
	f := daemon.EmptyFolder(t, l)
	w := watch(t, l.Node.Host)
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

// client is who asks, and the source that others see of it.
type client struct {
	*lab.Host
	seen string
}

// askAll checks what comes of the question, whoever asks.
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
			continue // node-2 sends the answer directly, not by way of who translated
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

// source is the address that the server must have seen.
func (c client) source(l *lab.Lab, f model.Family, a lab.Answer) netip.Addr {
	switch {
	case c.seen == own && a.By != c.Name:
		return c.Addr(f)
	case strings.HasPrefix(a.By, "remote"):
		return l.Node.Addr(f)
	}
	return l.Node.Gateway(f)
}
