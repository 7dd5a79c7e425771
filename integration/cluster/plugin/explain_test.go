package plugin_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plugin"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	// explainPort is where the endpoints of this file serve.
	explainPort = 8181
	// silence is how long to wait for an answer that may not come, and asks how many packets
	// are sent for one answer.
	silence = 400 * time.Millisecond
	// patience is how long to wait for an answer that comes.
	patience = 20 * time.Second
	asks     = 6
)

// report has the fields of the plugin's answer that packets can be compared with.
type report struct {
	Arrives string
	Answers string
	Ways    []struct {
		From, To, Protocol, Arrives string
		Endpoints                   []struct{ Address, Pod, Sees, Arrives, Why string }
	}
}

// testExplain compares what kubectl vmap explain answers for the way of a packet, there and
// back over several nodes, with packets.
func testExplain(t *testing.T, c *plugin.Cluster) {
	e := newExplainRig(t, c)
	remote := e.servers[1]
	drop := func(direction string) string {
		return fmt.Sprintf("add table inet test-explain; add chain inet test-explain forward { type filter hook forward priority 5; }; "+
			"add rule inet test-explain forward ip %[1]s %[2]s drop; add rule inet test-explain forward ip6 %[1]s %[3]s drop",
			direction, remote.Addr(model.IPv4), remote.Addr(model.IPv6))
	}
	for _, tc := range []struct {
		name    string
		node    int
		rules   string
		arrives string
		text    string // in the reason for the endpoint on node-2
	}{
		{"everything arrives", 0, "", answer.Always, ""},
		{"packets are dropped on the node of an endpoint", 1, drop("daddr"), answer.Sometimes, "on node " + c.Nodes[1].Name + ": dropped by table inet test-explain, chain forward"},
		{"replies are dropped on the node of an endpoint", 1, drop("saddr"), answer.Sometimes, "on node " + c.Nodes[1].Name + ": "},
		{"replies are dropped on the node of the client", 0, drop("saddr"), answer.Sometimes, "on node " + c.Nodes[0].Name + ": "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.rules != "" {
				nft(t, c.Nodes[tc.node], tc.rules)
				defer nft(t, c.Nodes[tc.node], "delete table inet test-explain")
			}
			r := e.explain(t, "pod/cart", "svc/web")
			if r.Arrives != tc.arrives || len(r.Ways) != len(model.Families)*len(model.Protocols) {
				t.Fatalf("%+v", r)
			}
			e.compare(t, r, e.client.Host)
			for _, w := range r.Ways {
				for _, p := range w.Endpoints {
					lost := tc.text != "" && p.Pod == e.ns.Name+"/web-2"
					if (p.Arrives == answer.Never) != lost || !strings.Contains(p.Why, tc.text) && lost {
						t.Errorf("%s -> %s: %+v", w.From, w.To, p)
					}
				}
			}
		})
	}
	t.Run("pod to pod", func(t *testing.T) {
		for _, p := range model.Protocols {
			r := e.explain(t, "pod/cart", fmt.Sprintf("pod/web-2:%d/%s", explainPort, p))
			if len(r.Ways) != len(model.Families) || r.Arrives != answer.Always {
				t.Errorf("%+v", r)
			}
			e.compare(t, r, e.client.Host)
		}
	})
	t.Run("client outside", func(t *testing.T) { e.outside(t) })
}

// explainRig has a Service of three pods, one on each node, and a client on the first node.
type explainRig struct {
	*plugin.Cluster
	ns      *objects.Namespace
	client  *lab.Pod
	servers []*lab.Pod
}

func newExplainRig(t *testing.T, c *plugin.Cluster) *explainRig {
	e := &explainRig{Cluster: c, ns: c.Namespace(t), client: c.Lab.Pods[1], servers: []*lab.Pod{c.Lab.Pods[2], c.Lab.RemotePods[2], c.Lab.ThirdPods[2]}}
	ctx := clustertest.Context(t)
	for i, p := range e.servers {
		clustertest.Must(t, p.ServeAll(explainPort))
		_, err := e.ns.CreatePod(ctx, fmt.Sprintf("web-%d", i+1), "web", c.At(p))
		clustertest.Must(t, err)
	}
	_, err := e.ns.CreatePod(ctx, "cart", "cart", c.At(e.client))
	clustertest.Must(t, err)
	s := objects.Service("web", objects.Ports(80, explainPort)...)
	s.Spec.Type = corev1.ServiceTypeNodePort
	_, err = e.ns.CreateService(ctx, s)
	clustertest.Must(t, err)
	clustertest.Must(t, e.ns.AwaitEndpoints(ctx, "web", len(e.servers)))
	c.AwaitRules(t)
	return e
}

func nft(t *testing.T, n *plugin.Node, commands string) {
	t.Helper()
	if out, err := n.Command(t.Context(), "nft", commands).CombinedOutput(); err != nil {
		t.Fatalf("nft %s: %v\n%s", commands, err, out)
	}
}

// explain runs the plugin. It observes for a moment only, as no client asks meanwhile.
func (e *explainRig) explain(t *testing.T, from, to string, args ...string) (r report) {
	t.Helper()
	out := e.Kubectl(t, append([]string{
		"vmap", "explain", "--node-timeout", "1m", "-n", e.ns.Name, "--from", from, "--to", to, "--observe", "100ms", "-o", "json",
	}, args...)...)
	if err := json.Unmarshal([]byte(out.Stdout), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := exit.Code(answer.ExitError(r.Arrives, r.Answers)); out.Code != want {
		t.Errorf("exit code %d for %s and %s\n%s", out.Code, r.Arrives, r.Answers, out)
	}
	return r
}

// compare sends packets and compares who answers, and whom it sees, with the report.
func (e *explainRig) compare(t *testing.T, r report, from *lab.Host) {
	t.Helper()
	answered, lost := 0, 0
	for _, w := range r.Ways {
		to := netip.MustParseAddrPort(w.To)
		client := netip.MustParseAddr(w.From)
		p := model.Protocols[slices.IndexFunc(model.Protocols[:], func(p model.Protocol) bool { return p.String() == w.Protocol })]
		wait := silence
		if w.Arrives == answer.Always {
			wait = patience
		}
		for range asks {
			got, err := from.AskFresh(p, client, to, wait)
			clustertest.Must(t, err)
			if got.Outcome != lab.Answered {
				lost++
				if w.Arrives == answer.Always {
					t.Errorf("%s -> %s/%s is %s, but always arrives", w.From, w.To, w.Protocol, got.Outcome)
				}
				continue
			}
			answered++
			matches := false
			for _, p := range w.Endpoints {
				at := netip.MustParseAddrPort(p.Address).Addr()
				matches = matches || e.name(at) == got.By && p.Sees == got.Seen.Addr().String() && p.Arrives == answer.Always
			}
			if !matches {
				t.Errorf("%s -> %s/%s is answered by %s, which sees %s; the report has %+v", w.From, w.To, w.Protocol, got.By, got.Seen, w.Endpoints)
			}
		}
	}
	if (answered > 0) != (r.Arrives != answer.Never) || (lost > 0) != (r.Arrives != answer.Always) {
		t.Errorf("%d packets were answered and %d were not, but the report has %s", answered, lost, r.Arrives)
	}
}

// name returns the name of the server that has an address.
func (e *explainRig) name(a netip.Addr) string {
	for _, s := range e.servers {
		if s.Addr(model.FamilyOf(a)) == a {
			return s.Name
		}
	}
	return ""
}

// outside has a client that is not in the cluster.
func (e *explainRig) outside(t *testing.T) {
	for _, f := range model.Families {
		r := e.explain(t, e.Lab.Outside.Addr(f).String(), "svc/web", "--node", e.Nodes[1].Name)
		if len(r.Ways) != len(model.Protocols) || r.Arrives != answer.Always {
			t.Errorf("%+v", r)
		}
		e.compare(t, r, e.Lab.Outside)
	}
}
