package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate/path"
)

// A rig is a cluster of three nodes with a client on node-1 and an endpoint of shop/web on
// each node, whose nodes answer what a test wants.
type rig struct {
	t         *testing.T
	objects   map[string]runtime.Object // by name
	answers   map[string]*answer.Answer // by node, or by node and destination
	documents map[string]*nodestatus.Document
	later     map[string]*nodestatus.Document // when they are read again
	errors    map[string]error                // by node
	failLater error                           // when documents are read again
	probe     bool

	mu    sync.Mutex
	asked []string // node and arguments
}

var errSilent = errors.New("no pod of kube-vmap")

func newRig(t *testing.T) *rig {
	r := &rig{t: t, objects: map[string]runtime.Object{}, answers: map[string]*answer.Answer{}, documents: map[string]*nodestatus.Document{}, errors: map[string]error{}}
	for _, n := range []string{"1", "2", "3"} {
		r.objects["node-"+n] = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-" + n},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2." + n}}},
		}
		r.objects["web-"+n] = newPod("web-"+n, "web", "node-"+n, "10.244."+n+".2", true)
	}
	r.objects["cart"] = newPod("cart", "cart", "node-1", "10.244.1.3", true)
	r.objects["web"] = &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.55.163", ClusterIPs: []string{"10.96.55.163"}, Selector: map[string]string{"app": "web"}, Type: corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{{Name: "tcp-80", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	r.objects["slice"] = newSlice("1", "2", "3")
	r.answers["node-1"] = newAnswer("10.96.55.163:80", "1", "2", "3")
	r.answers["node-1"].Service, r.answers["node-1"].Kind = "shop/web:tcp-80", "ClusterIP"
	for _, n := range []string{"2", "3"} {
		r.answers["node-"+n] = newAnswer("10.244."+n+".2:8080", n)
		r.answers["node-"+n].Outcomes[0].Verdict = path.VerdictNotService
	}
	for _, n := range []string{"1", "2", "3"} {
		r.documents["node-"+n] = newDocument("1", "2", "3")
	}
	return r
}

// newAnswer is the answer of a node that sends packets of cart to the endpoints on nodes, which answer.
func newAnswer(to string, nodes ...string) *answer.Answer {
	a := &answer.Answer{
		Schema: answer.Schema, From: "10.244.1.3", To: to, Protocol: "tcp", Interface: "eth0", Arrives: answer.Always,
		Outcomes: []path.Outcome{{Verdict: path.VerdictDelivered, Probability: 1}}, Process: "answers",
	}
	for _, n := range nodes {
		a.Outcomes[0].Endpoints = append(a.Outcomes[0].Endpoints, path.Endpoint{
			Address: netip.MustParseAddr("10.244." + n + ".2"), Port: 8080, Probability: 1 / float64(len(nodes)), Sees: netip.MustParseAddr(a.From), Response: answer.Responds,
			Reply: path.Reply{Verdict: path.VerdictDelivered, From: to, To: a.From + ":0"},
		})
	}
	return a
}

// withoutReplies makes answers as of the version before they had replies and a schema.
func (r *rig) withoutReplies() {
	for _, a := range r.answers {
		a.Schema = 0
		for i := range a.Outcomes[0].Endpoints {
			a.Outcomes[0].Endpoints[i].Reply = path.Reply{}
		}
	}
}

// recorded returns an answer that kube-vmap has printed: of a node that drops the reply.
func (r *rig) recorded() *answer.Answer {
	r.t.Helper()
	text, err := os.ReadFile("testdata/schema1-lost-reply.json")
	a := &answer.Answer{}
	if err := errors.Join(err, json.Unmarshal(text, a)); err != nil {
		r.t.Fatal(err)
	}
	a.Outcomes[0].Endpoints[0].Response = answer.Responds // as if there were connections
	a.Hints = nil                                         // are made again
	return a
}

// explain answers the question of a client to shop/web.
func (r *rig) explain(from, to string) *Report {
	r.t.Helper()
	e := &Explainer{
		Resolver: &resolve.Resolver{Namespace: "shop", API: fake.NewClientset(slices.Collect(maps.Values(r.objects))...)},
		Nodes:    r, Families: model.Families[:], Probe: r.probe, Observe: time.Second,
	}
	report, err := e.Explain(r.t.Context(), from, to)
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

// Explain implements [Nodes].
func (r *rig) Explain(_ context.Context, node string, q Query) (*answer.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, node+" "+strings.Join(q.args()[1:], " "))
	out := &answer.Response{Process: "answers", Document: r.documents[node]}
	for range q.Packets {
		if a := r.answers[node]; a != nil {
			out.Answers = append(out.Answers, *a)
			continue
		}
		out.Answers = append(out.Answers, answer.Answer{Error: "no answer"})
	}
	text, err := json.Marshal(out)
	received := &answer.Response{} // as from a node, with memory of its own
	if err := errors.Join(err, json.Unmarshal(text, received)); err != nil {
		r.t.Error(err)
	}
	return received, r.errors[node]
}

// Document implements [Nodes].
func (r *rig) Document(_ context.Context, node string, _ nodestatus.Query) (*nodestatus.Document, error) {
	if d := r.later[node]; d != nil {
		return d, nil
	}
	return r.documents[node], cmp.Or(r.failLater, r.errors[node])
}

// expect checks that the text of a report has parts, in this order.
func (r *rig) expect(report *Report, arrives string, parts ...string) {
	r.t.Helper()
	text := report.Text(false)
	if report.Arrives != arrives {
		r.t.Errorf("arrives %s, want %s\n%s", report.Arrives, arrives, text)
	}
	rest := text
	for _, p := range parts {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			r.t.Errorf("no %q in its place in\n%s", p, text)
			return
		}
		rest = after
	}
}

func newPod(name, app, node, address string, ready bool) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}, ReadinessProbe: &corev1.Probe{},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}},
	}
	c := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	if !ready {
		c = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "containers with unready status: [web]"}
	}
	p.Status.Conditions = []corev1.PodCondition{c}
	return p
}

func newSlice(nodes ...string) *discoveryv1.EndpointSlice {
	name, port, protocol := "tcp-80", int32(8080), corev1.ProtocolTCP
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "web-x", ResourceVersion: "120", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for _, n := range nodes {
		ready, node := true, "node-"+n
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{"10.244." + n + ".2"}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-" + n},
		})
	}
	return s
}

func newDocument(nodes ...string) *nodestatus.Document {
	p := nodestatus.Port{
		Name: "tcp-80", Protocol: "TCP", Family: "IPv4",
		Frontends: []nodestatus.Frontend{{Address: "10.96.55.163", Port: 80, Kind: "ClusterIP"}},
	}
	for _, n := range nodes {
		p.Endpoints = append(p.Endpoints, nodestatus.Endpoint{Address: "10.244." + n + ".2", Port: 8080, Conditions: &nodestatus.Conditions{Ready: true, Serving: true}})
	}
	return &nodestatus.Document{
		Source: nodestatus.FromDaemon, Ready: true,
		Services: []nodestatus.Service{{Namespace: "shop", Name: "web", Ports: []nodestatus.Port{p}}},
	}
}
