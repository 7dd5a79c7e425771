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

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/nodestest"
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
