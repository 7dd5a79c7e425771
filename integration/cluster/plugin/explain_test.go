package plugin_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
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
	Schema  int
	From    struct{ Kind, Name, Node string }
	Arrives string
	Answers string
	Entries []struct{ Node, Arrives string }
	Ways    []struct {
		From, To, Protocol, Arrives, Verdict string
		Causes                               []struct{ Text string }
		Endpoints                            []struct{ Address, Pod, Node, Sees, Arrives, Why string }
	}
}

// TestExplain compares what kubectl vmap explain answers for the way of a packet, there and
// back over several nodes, with packets.
func TestExplain(t *testing.T) {
	t.Parallel()
	c := plugin.New(t, 3)
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
			if r.Arrives != tc.arrives || len(r.Ways) != len(model.Families)*len(model.Protocols) || r.Schema != 1 {
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
	t.Run("client by address", func(t *testing.T) {
		for _, f := range model.Families {
			r := e.explain(t, e.client.Addr(f).String(), "svc/web:udp-80")
			if r.From.Kind != "pod" || r.From.Name != "cart" || r.From.Node != c.Nodes[0].Name || len(r.Ways) != 1 || r.Arrives != answer.Always {
				t.Errorf("%+v", r)
			}
		}
	})
	t.Run("pod to pod", func(t *testing.T) {
		for _, p := range model.Protocols {
			r := e.explain(t, "pod/cart", fmt.Sprintf("pod/web-2:%d/%s", explainPort, p))
			if len(r.Ways) != len(model.Families) || r.Arrives != answer.Always {
				t.Errorf("%+v", r)
			}
			e.compare(t, r, e.client.Host)
		}
	})
	t.Run("answers", func(t *testing.T) { e.answers(t) })
	t.Run("worst entry", func(t *testing.T) { e.worstEntry(t) })
	t.Run("client outside", func(t *testing.T) { e.outside(t) })
	t.Run("stale node", func(t *testing.T) { e.staleNode(t) })
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
	clustertest.Must(t, e.ns.AwaitEndpoints(ctx, "web", len(e.servers), model.Families[:]...))
	c.AwaitRules(t)
	return e
}

func nft(t *testing.T, n *plugin.Node, commands string) {
	t.Helper()
	if out, err := n.Command(t.Context(), "nft", commands).CombinedOutput(); err != nil {
		t.Fatalf("nft %s: %v\n%s", commands, err, out)
	}
}

// run runs the plugin. It observes for a moment only, as no client asks meanwhile.
func (e *explainRig) run(t *testing.T, from, to string, args ...string) plugin.Output {
	t.Helper()
	return e.Kubectl(t, append([]string{"vmap", "explain", "-n", e.ns.Name, "--from", from, "--to", to, "--observe", "100ms"}, args...)...)
}

func (e *explainRig) explain(t *testing.T, from, to string, args ...string) (r report) {
	t.Helper()
	out := e.run(t, from, to, append(args, "-o", "json")...)
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

// answers has a Service with a wrong target port: the rules are those of one that answers.
func (e *explainRig) answers(t *testing.T) {
	ctx := clustertest.Context(t)
	s := objects.Service("wrong", objects.Ports(80, explainPort+7)...)
	s.Spec.Selector[objects.App] = "web"
	_, err := e.ns.CreateService(ctx, s)
	clustertest.Must(t, err)
	clustertest.Must(t, e.ns.AwaitEndpoints(ctx, "wrong", len(e.servers), model.Families[:]...))
	e.AwaitRules(t)
	for _, tc := range []struct {
		port, probe, answers string
	}{
		{"tcp-80", "", answer.Unknown},
		{"udp-80", "", answer.Unknown},
		{"sctp-80", "", answer.Unknown},
		{"tcp-80", "--probe", answer.Never},
		{"udp-80", "--probe", answer.Unknown},
		{"sctp-80", "--probe", answer.Unknown},
	} {
		if r := e.explain(t, "pod/cart", "svc/wrong:"+tc.port, strings.Fields(tc.probe)...); r.Arrives != answer.Always || r.Answers != tc.answers {
			t.Errorf("%+v: %+v", tc, r)
		}
	}
	clustertest.Must(t, e.ns.DeleteService(ctx, "wrong"))
	r := e.explain(t, "pod/cart", "svc/web:tcp-80", "--probe")
	if r.Answers != answer.Always {
		t.Errorf("%+v", r)
	}
	e.compare(t, r, e.client.Host)
}

// worstEntry has a Service whose policy is Local and whose only endpoint is on the first node: a
// client outside whose packets enter at another node gets no answer.
func (e *explainRig) worstEntry(t *testing.T) {
	ctx := clustertest.Context(t)
	near := e.Lab.Pods[0]
	clustertest.Must(t, near.ServeAll(explainPort))
	_, err := e.ns.CreatePod(ctx, "alone", "alone", e.At(near))
	clustertest.Must(t, err)
	s := objects.Service("alone", objects.Ports(80, explainPort)...)
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	s.Spec.ExternalIPs = []string{"203.0.113.90", "2001:db8:f::90"}
	_, err = e.ns.CreateService(ctx, s)
	clustertest.Must(t, err)
	clustertest.Must(t, e.ns.AwaitEndpoints(ctx, "alone", 1, model.Families[:]...))
	e.AwaitRules(t)
	for _, f := range model.Families {
		from := e.Lab.Outside.Addr(f).String()
		r := e.explain(t, from, "svc/alone")
		if r.Arrives != answer.Never || len(r.Entries) != 3 || r.Entries[2].Node != e.Nodes[0].Name || r.Entries[2].Arrives != answer.Always {
			t.Errorf("%+v", r)
		}
		if r := e.explain(t, from, "svc/alone", "--node", e.Nodes[0].Name); r.Arrives != answer.Always {
			t.Errorf("%+v", r)
		}
		out := e.run(t, from, "svc/alone:tcp-80")
		if want := fmt.Sprintf("does not arrive by %s, %s; arrives by %s\n", e.Nodes[1].Name, e.Nodes[2].Name, e.Nodes[0].Name); out.Code != 1 || !strings.Contains(out.Stdout, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	clustertest.Must(t, e.ns.DeleteService(ctx, "alone"))
	clustertest.Must(t, e.ns.DeletePod(ctx, "alone"))
}

// staleNode has a node that the API server does not reach, a new endpoint, and a new Service. It
// is the last: the node needs its time to follow again.
func (e *explainRig) staleNode(t *testing.T) {
	ctx := clustertest.Context(t)
	server, err := url.Parse(e.Server)
	clustertest.Must(t, err)
	near := e.Lab.RemotePods[1]
	_, err = e.ns.CreatePod(ctx, "near", "near", e.At(near))
	clustertest.Must(t, err)
	nft(t, e.Nodes[1], "add table inet test-explain; add chain inet test-explain input { type filter hook input priority 0; }; "+
		"add rule inet test-explain input tcp sport "+server.Port()+" drop")
	added := e.Lab.ThirdPods[1]
	_, err = e.ns.CreatePod(ctx, "web-4", "web", e.At(added))
	clustertest.Must(t, err)
	clustertest.Must(t, e.ns.AwaitEndpoints(ctx, "web", len(e.servers)+1, model.Families[:]...))
	out := e.run(t, "pod/cart", "svc/web:tcp-80")
	pod := fmt.Sprintf(" (pod %s/web-4), ", e.ns.Name)
	want := e.Nodes[1].Name + " does not have endpoints " + added.AddrPort(model.IPv4, explainPort).String() + pod +
		added.AddrPort(model.IPv6, explainPort).String() + pod + "which EndpointSlices have"
	if !strings.Contains(out.Stdout, want) || strings.Contains(out.Stdout, e.Nodes[2].Name+" does not have") {
		t.Errorf("no %q in %s", want, out)
	}
	late := objects.Service("late", objects.Ports(80, explainPort)...)
	late.Spec.Selector[objects.App] = "web"
	_, err = e.ns.CreateService(ctx, late)
	clustertest.Must(t, err)
	clustertest.Must(t, e.ns.AwaitEndpoints(ctx, "late", len(e.servers)+1, model.Families[:]...))
	r := e.explain(t, "pod/near", "svc/late")
	if r.Arrives != answer.Never || len(r.Ways[0].Causes) == 0 || !strings.HasPrefix(r.Ways[0].Causes[0].Text, e.Nodes[1].Name+" does not have "+r.Ways[0].To) {
		t.Errorf("%+v", r)
	}
	e.compare(t, r, near.Host)
}
