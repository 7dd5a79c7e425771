package problems_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodes/onetest"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/problems"
)

// document has a Service with a notice, one with a problem, one without either, and an
// EndpointSlice that is unusable.
func document() *nodestatus.Document {
	slots := []int{0, 1}
	service := func(name string, change func(*nodestatus.Port)) nodestatus.Service {
		p := nodestatus.Port{
			Name: "http", Protocol: "TCP", Family: "IPv4", Scheduler: "random",
			Frontends: []nodestatus.Frontend{{Address: "10.96.0.1", Port: 80, Kind: "ClusterIP", Policy: "Cluster", Verdict: nodestatus.VerdictBalance}},
			Endpoints: []nodestatus.Endpoint{{Address: "10.244.0.1", Port: 8080, Slot: &slots[0]}, {Address: "10.244.0.2", Port: 8080, Slot: &slots[1]}},
		}
		change(&p)
		return nodestatus.Service{Namespace: "shop", Name: name, Ports: []nodestatus.Port{p}}
	}
	return &nodestatus.Document{
		Source: nodestatus.FromDaemon, Node: "node-1", Version: "v1.2.3", Ready: true, Counted: true,
		Services: []nodestatus.Service{
			service("plain", func(*nodestatus.Port) {}),
			service("refusing", func(p *nodestatus.Port) { p.Endpoints[1].Refused = 2 }),
			service("sticky", func(p *nodestatus.Port) { p.AffinitySeconds = 60 }),
		},
		Problems: []nodestatus.Problem{{Object: "EndpointSlice shop/x", Reason: "Unusable", Field: "endpoints", Text: "endpoints: Required value"}},
	}
}

// run runs the command with options, as its flags would, and returns what it prints with the error.
func run(t *testing.T, o problems.Options, node onetest.Node) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := problems.NewCommand(inNamespace{node, o.Namespace}, "kube-vmap", nil)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append(o.Names, "--observe", o.Observe.String(), "--output", o.Output))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// inNamespace is a node for a command with -n.
type inNamespace struct {
	onetest.Node
	namespace string
}

func (n inNamespace) Namespace() (given, current string, err error) {
	return n.namespace, n.namespace, nil
}

func TestProblems(t *testing.T) {
	for name, test := range map[string]struct {
		options   problems.Options
		change    func(*nodestatus.Document)
		code      int
		want, not []string
	}{
		"all": {problems.Options{Observe: 3 * time.Second}, nil, 1, []string{
			"1 node, 3 Services: 2 problems, 1 notice; responses observed for 3 s\n",
			"Problem  EndpointSlice shop/x\n    endpoints: Required value\n    Unusable, endpoints\n",
			"Problem  Service shop/refusing (http/TCP)\n    1 of 2 endpoints answers with a reset, 2 times", "10.244.0.2:8080\n    Refuses, spec.ports[].targetPort\n",
			"Notice  Service shop/sticky (http/TCP)\n", "\n    Affinity, spec.sessionAffinity: ClientIP\n",
		}, []string{"shop/plain"}},
		"of one": {problems.Options{Names: []string{"sticky"}}, nil, 0, []string{"1 node, 1 Service: 0 problems, 1 notice\nNot checked: ", "; whether endpoints respond (--observe)\n"}, []string{"refusing", "EndpointSlice"}},
		"of none": {problems.Options{Names: []string{"plain"}}, nil, 0, []string{
			"1 node, 1 Service: 0 problems, 0 notices\nNot checked: what firewalls and other programs drop (explain shows it); ",
		}, []string{"Notice"}},
		"of an unknown one": {problems.Options{Names: []string{"plain", "nope"}, Namespace: "shop"}, nil, 2, []string{"kube-vmap serves no Service nope in namespace shop"}, nil},
		"without counts":    {problems.Options{Observe: time.Second}, func(d *nodestatus.Document) { d.Counted = false }, 1, []string{"observed for 1 s\n", "resets, since connections are not counted; endpoints that no client tried"}, nil},
		"not ready":         {problems.Options{}, func(d *nodestatus.Document) { d.Ready = false }, 2, []string{"not programmed everything yet"}, nil},
		"no namespace":      {problems.Options{Namespace: "typo"}, func(d *nodestatus.Document) { d.Services = nil }, 2, []string{"kube-vmap serves no Service in namespace typo"}, nil},
		"a bad format":      {problems.Options{Output: "yaml"}, nil, 2, []string{"use json"}, nil},
	} {
		d := document()
		if test.change != nil {
			test.change(d)
		}
		text, err := run(t, test.options, func(_ context.Context, q nodestatus.Query) (*nodestatus.Document, error) {
			if q.Brief || q.Observe != test.options.Observe {
				t.Errorf("%s: asked for %+v", name, q)
			}
			d.ObservedSeconds = q.Observe.Seconds()
			return d, nil
		})
		if err != nil {
			text += err.Error()
		}
		if exit.Code(err) != test.code {
			t.Errorf("%s: exit code %d, want %d", name, exit.Code(err), test.code)
		}
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, text)
			}
		}
		for _, not := range test.not {
			if strings.Contains(text, not) {
				t.Errorf("%s: %q is in\n%s", name, not, text)
			}
		}
	}
}

func TestProblemsInJSON(t *testing.T) {
	ask := onetest.Node(func(context.Context, nodestatus.Query) (*nodestatus.Document, error) { return document(), nil })
	text, err := run(t, problems.Options{Output: "json"}, ask)
	if exit.Code(err) != 1 {
		t.Errorf("exit code of %v", err)
	}
	var l findings.List
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatal(err)
	}
	if l.Schema != findings.Schema || l.Node != "node-1" || l.Version != "v1.2.3" || l.Services != 3 || len(l.Findings) != 3 || len(l.NotObserved) != 2 || l.Findings[1].Name != "refusing" {
		t.Errorf("got %+v", l)
	}
	ask = func(context.Context, nodestatus.Query) (*nodestatus.Document, error) {
		return &nodestatus.Document{Ready: true}, nil
	}
	if text, err := run(t, problems.Options{Output: "json"}, ask); err != nil || !strings.Contains(text, `"findings": []`) {
		t.Errorf("of an empty document: %v, %s", err, text)
	}
}

func TestProblemsWithoutAnAnswer(t *testing.T) {
	failure := errors.New("no kube-vmap answers")
	_, err := run(t, problems.Options{}, func(context.Context, nodestatus.Query) (*nodestatus.Document, error) { return nil, failure })
	if exit.Code(err) != exit.Trouble || !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}
