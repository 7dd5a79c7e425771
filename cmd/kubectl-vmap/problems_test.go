package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/nodestest"
	"kube-vmap/cmd/kubectl-vmap/resolve"
)

// finding returns a finding about Service shop/web.
func finding(severity, reason, text string, ports ...string) findings.Finding {
	return findings.Finding{
		Severity: severity, Object: "Service shop/web", Namespace: "shop", Name: "web", Reason: reason, Field: "spec.x", Ports: ports, Text: text,
	}
}

// node is a node with findings, which records its arguments.
type node struct {
	mu   sync.Mutex
	args []string
	list findings.List
	code int
}

func finds(list ...findings.Finding) *node {
	l := findings.List{Schema: findings.Schema, Services: 7, Findings: list, NotObserved: []string{"resets"}}
	n := &node{list: l}
	if l.Problems() {
		n.code = 1
	}
	return n
}

func (n *node) run(_ *http.Request, args []string, stdout, _ io.Writer) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.args = args
	_ = json.NewEncoder(stdout).Encode(n.list) // the client notices
	return n.code
}

// command runs kubectl vmap problems.
func command(t *testing.T, programs map[string]nodestest.Program, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return nodestest.New(t, programs).Command(t, problemsCommand, args...)
}

const (
	problem = nodestatus.SeverityProblem
	notice  = nodestatus.SeverityNotice
)

func TestFindingsOfNodesAreMerged(t *testing.T) {
	programs := map[string]nodestest.Program{}
	for i := range 4 {
		list := []findings.Finding{finding(notice, nodestatus.ReasonLocalPolicy, fmt.Sprintf("%d of 3 endpoints", max(i, 1)))}
		if i == 1 {
			refuses := finding(problem, nodestatus.ReasonRefuses, "", "http/TCP")
			refuses.Args = nodestatus.Args{Hit: 1, All: 3, Number: 80, Named: []string{"x"}, NamedOf: 1}
			list = append(list, refuses, finding(notice, nodestatus.ReasonSilent, "1 is silent"),
				finding(notice, nodestatus.ReasonLocalPolicy, "of the other family: the node differs from none"))
		}
		if i == 3 {
			list = append(list, finding(problem, nodestatus.ReasonSilent, "2 are silent"), findings.Finding{Severity: problem, Object: "Node node-3", Reason: "Node", Text: "\x1b[2Jbad"})
		}
		programs[fmt.Sprintf("node-%d", i)] = finds(list...).run
	}
	out, errs, code := command(t, programs)
	want := `Problem  Node node-3 on node-3
    ?[2Jbad
    Node
Problem  Service shop/web (http/TCP) on node-1
    1 of 3 endpoints answers with a reset: no program listens on port 80 there, or a network policy rejects: x
    Refuses, spec.x
Problem  Service shop/web on node-1,node-3
    1 is silent (on node-1); 2 are silent (on node-3)
    Silent, spec.x
Notice  Service shop/web on all 4 nodes
    1 of 3 endpoints (on node-0, node-1); 2 of 3 endpoints (on node-2); 3 of 3 endpoints (on node-3)
    LocalPolicy, spec.x
4 nodes, 7 Services: 3 problems, 1 notice
Not checked: resets
`
	if out != want || errs != "" || code != 1 {
		t.Errorf("exit code %d, %sgot\n%s\nwant\n%s", code, errs, out, want)
	}
}

// TestUncountedConnectionsAreTrouble has a node whose list says that it may not be complete.
func TestUncountedConnectionsAreTrouble(t *testing.T) {
	for _, severity := range []string{notice, problem} {
		n := finds(finding(severity, nodestatus.ReasonNotCounted, "x"))
		n.code = exit.Trouble
		out, errs, code := command(t, map[string]nodestest.Program{"a": n.run})
		if code != exit.Trouble || !strings.Contains(errs, "connections are not counted") || !strings.Contains(out, "NotCounted") {
			t.Errorf("%s: exit code %d, %s%s", severity, code, out, errs)
		}
	}
}

func TestObjectsHaveAllNodes(t *testing.T) {
	programs := map[string]nodestest.Program{"a": finds(finding(problem, nodestatus.ReasonRefuses, "x", "http/TCP")).run, "b": finds(finding(notice, nodestatus.ReasonRefuses, "x", "dns/UDP")).run}
	out, _, code := command(t, programs, "-o", "json")
	var list struct {
		Items   []findings.Merged
		Summary findings.Summary
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 1 || code != 1 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	p := list.Items[0]
	if !slices.Equal(p.Nodes, []string{"a", "b"}) || len(p.Ports) != 2 || p.Severity != problem ||
		!reflect.DeepEqual(list.Summary, findings.Summary{Nodes: 2, Services: 7, Problems: 1, NotObserved: []string{"resets"}}) {
		t.Errorf("read %+v", list)
	}
}

// TestNodeBehindIsNotTakenForAWrongSelector has a Service without endpoints on one node only,
// and one without on all.
func TestNodeBehindIsNotTakenForAWrongSelector(t *testing.T) {
	none := func(name string) findings.Finding {
		f := finding(problem, nodestatus.ReasonNoEndpoints, "the selector matches no pod")
		f.Object, f.Name, f.Field = "Service shop/"+name, name, nodestatus.FieldSelector
		return f
	}
	stdout, _, _ := command(t, map[string]nodestest.Program{
		"node-1": finds(none("wrong")).run, "node-2": finds(none("wrong"), none("behind")).run,
	})
	for _, block := range strings.Split(stdout, "Problem  ") {
		behind := strings.Contains(block, "shop/behind")
		if behind && (!strings.Contains(block, "behind the API server") || strings.Contains(block, "spec.selector")) ||
			strings.Contains(block, "shop/wrong") && !strings.Contains(block, "spec.selector") {
			t.Errorf("%s", block)
		}
	}
	if strings.Count(stdout, "Service shop/") != 2 {
		t.Error(stdout)
	}
}

func TestSilentNodesAreNamed(t *testing.T) {
	programs := map[string]nodestest.Program{"a": finds().run, "b": nil, "c": func(_ *http.Request, _ []string, _, stderr io.Writer) int {
		_, _ = io.WriteString(stderr, "kube-vmap: kube-vmap serves no Service web")
		return exit.Trouble
	}}
	out, errs, code := command(t, programs)
	if out != "1 node, 7 Services: 0 problems, 0 notices; no answer from 1 more node\nNot checked: resets\n" || code != exit.Trouble ||
		!strings.Contains(errs, "1 node without kube-vmap: b\n") || !strings.Contains(errs, "c: kube-vmap serves no Service web") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	delete(programs, "a")
	if out, _, code := command(t, programs); out != "" || code != exit.Trouble {
		t.Errorf("without an answer, exit code %d: %s", code, out)
	}
	programs["b"] = programs["c"]
	if _, errs, _ := command(t, programs); strings.Contains(errs, "did not answer") || !strings.Contains(errs, "kube-vmap serves no Service web") {
		t.Errorf("for an unknown Service: %s", errs)
	}
}

func TestNodesAreAskedWhatTheCommandIs(t *testing.T) {
	for args, want := range map[string]string{
		"":                                "problems -o json --observe 3s",
		"-n shop":                         "problems -o json --observe 3s --namespace shop",
		"web db":                          "problems -o json --observe 3s --namespace shop web db", // of the kubeconfig
		"-A web":                          "problems -o json --observe 3s web",
		"-n other web":                    "problems -o json --observe 3s --namespace other web",
		"--observe 0":                     "problems -o json --observe 0s",
		"--node a -o wide":                "problems -o json --observe 3s",
		"--observe 10s --node-timeout 1s": "problems -o json --observe 10s",
		"--observe 2562047h47m16s":        "",
		"-n TYPO":                         "",
		"--observe -1s":                   "",
		"-o xml":                          "",
		"--no-such-flag":                  "",
		"--node a,no-such":                "",
		"--all-nodes":                     "problems -o json --observe 3s",
		"--all-nodes --node a":            "",
	} {
		n := finds()
		out, errs, code := command(t, map[string]nodestest.Program{"a": n.run}, strings.Fields(args)...)
		if got := strings.Join(n.args, " "); got != want || (code == exit.Trouble) != (want == "") {
			t.Errorf("%q: the node was asked %q, want %q; exit code %d: %s%s", args, got, want, code, out, errs)
		}
	}
}

// newAPI has Service shop/web, with labels that no pod has, and two pods of both families.
func newAPI(target intstr.IntOrString) *fake.Clientset {
	web := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			Ports: []corev1.ServicePort{{Name: "http", TargetPort: target}, {Name: "dns", Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(53)}},
		},
	}
	lost := web.DeepCopy()
	lost.Name, lost.Spec.Selector = "lost", map[string]string{"app": "wbe"}
	objects := []runtime.Object{web, lost}
	for i, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
		s := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: string(family), Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: family,
		}
		for n, addresses := range map[string][2]string{"1": {"10.244.1.2", "fd00::1:2"}, "2": {"10.244.2.2", "fd00::2:2"}} {
			node := "node-" + n
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
				Addresses: addresses[i : i+1], NodeName: &node, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-" + n},
			})
		}
		objects = append(objects, s)
	}
	return fake.NewClientset(append(objects, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}}}},
	})...)
}

func TestFindingsNamePodsAndValues(t *testing.T) {
	both := []string{"10.244.1.2:8080", "10.244.2.2:8080", "[fd00::1:2]:8080", "[fd00::2:2]:8080"}
	of := func(hit, all int, named ...string) nodestatus.Args {
		return nodestatus.Args{Hit: hit, All: all, Named: named, NamedOf: hit, Number: 8081}
	}
	more := append([]string{"10.244.1.2:8080", "10.244.2.2:8080", "10.9.0.1:80", "10.9.0.2:80", "10.9.0.3:80", "10.9.0.4:80"}, both[2:]...)
	const podReady = "status.conditions[Ready] of the pod"
	const undeclared = "web-2 on node-2 (10.244.2.2:8080); no container of its pods declares that port, though a program may listen there; they have web 8080"
	http := nodestatus.Args{Hit: 3, Message: "http/TCP"}
	for _, tc := range []struct {
		service, reason, field string
		args                   nodestatus.Args
		endpoints              []string
		target                 string
		wantField, wantText    string
	}{
		{"web", nodestatus.ReasonNotReady, podReady, of(2, 3, both[:2]...), both, "1", podReady, "2 of 3 endpoints are not ready: web-1 on node-1 (10.244.1.2:8080), web-2 on node-2 (10.244.2.2:8080)"},
		{"web", nodestatus.ReasonDrained, "x", of(6, 7, more[:4]...), more, "1", "x", "have weight 0: web-1 on node-1 (10.244.1.2:8080), web-2 on node-2 (10.244.2.2:8080), 10.9.0.1:80, 10.9.0.2:80 and 2 more"},
		{"lost", nodestatus.ReasonNoEndpoints, nodestatus.FieldSelector, nodestatus.Args{}, nil, "1", "spec.selector: app=wbe", "refused: the selector matches no pod in namespace shop; pods there have app=web"},
		{"web", nodestatus.ReasonNoEndpoints, nodestatus.FieldSelector, nodestatus.Args{}, nil, "1", "spec.selector: app=web", "refused: the selector matches 1 pod, none of which has an address"},
		{"web", nodestatus.ReasonNoPort, nodestatus.FieldTargetPort, http, nil, "htpt", "spec.ports[].targetPort: htpt", "have none at all; no container of its pods declares a port of that name; they have web 8080"},
		{"web", nodestatus.ReasonRefuses, nodestatus.FieldTargetPort, of(2, 2, both[:2]...), both, "8081", "spec.ports[].targetPort: 8081", undeclared},
		{"gone", nodestatus.ReasonNoEndpoints, nodestatus.FieldSelector, nodestatus.Args{}, nil, "1", nodestatus.FieldSelector, "the selector matches no pod with an address"},
	} {
		f := findings.Finding{
			Object: "Service shop/" + tc.service, Namespace: "shop", Name: tc.service, Reason: tc.reason, Field: tc.field, Args: tc.args,
			Endpoints: tc.endpoints, Ports: []string{"http/TCP"}, Families: []string{"IPv4", "IPv6"},
		}
		var m findings.Merger
		m.Add("node-1", []findings.Finding{f})
		list := m.Sorted()
		err := namer{&resolve.Resolver{API: newAPI(intstr.Parse(tc.target))}}.add(t.Context(), list)
		if err != nil || list[0].Field != tc.wantField || !strings.HasSuffix(list[0].String(), tc.wantText) {
			t.Errorf("%s: %v\ngot  %s: %s\nwant %s: %s", tc.reason, err, list[0].Field, list[0].String(), tc.wantField, tc.wantText)
		}
	}
}

// TestPodsThatCannotBeReadAreNoFailure has a user who may not read EndpointSlices.
func TestPodsThatCannotBeReadAreNoFailure(t *testing.T) {
	api := newAPI(intstr.FromInt32(8080))
	api.PrependReactor("list", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "endpointslices"}, "", nil)
	})
	f := finding(problem, nodestatus.ReasonNotReady, "1 of 1 is not ready: 10.244.1.2:8080")
	f.Endpoints = []string{"10.244.1.2:8080"}
	var m findings.Merger
	m.Add("node-1", []findings.Finding{f})
	list := m.Sorted()
	err := namer{&resolve.Resolver{API: api}}.add(t.Context(), list)
	if err == nil || !strings.Contains(err.Error(), "shop/web") || !strings.Contains(err.Error(), "deploy/kubectl") || list[0].Sentence() != f.Text {
		t.Errorf("%v: %s", err, list[0].Sentence())
	}
}
