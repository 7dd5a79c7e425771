package findings

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
)

// document has a finding of most kinds on a node, with numbers of its own.
func document(node string, connections int) *nodestatus.Document {
	slot := 0
	endpoint := func(n int, reason string) nodestatus.Endpoint {
		e := nodestatus.Endpoint{Address: fmt.Sprintf("10.0.0.%d", n), Port: 80, Reason: reason, Conditions: &nodestatus.Conditions{Ready: true, Serving: true}}
		if reason == "" {
			e.Slot = &slot
		}
		return e
	}
	refusing := endpoint(1, "")
	refusing.Refused = connections
	problem := func(family string) nodestatus.Problem {
		return nodestatus.Problem{Object: "Service shop/web:x", Reason: nodestatus.ReasonNoPort, Args: nodestatus.Args{Hit: 3, Family: family, Message: "x/TCP"}}
	}
	return &nodestatus.Document{
		Node: node, Source: nodestatus.FromDaemon, Ready: true,
		Health: &nodestatus.Health{FastPath: &nodestatus.FastPath{Reason: "rules"}, Refused: nodestatus.Refused{Ports: 2}},
		Services: []nodestatus.Service{{Namespace: "shop", Name: "web", Problems: []nodestatus.Problem{problem("IPv4"), problem("IPv6")}, Ports: []nodestatus.Port{{
			Protocol: "TCP", Family: "IPv4", AffinitySeconds: 60, Scheduler: "sh",
			Frontends: []nodestatus.Frontend{{Address: "10.96.0.1", Port: 80, Kind: "ClusterIP", Verdict: nodestatus.VerdictBalance, Restricted: true}},
			Endpoints: []nodestatus.Endpoint{refusing, endpoint(2, ""), endpoint(3, "NotReady"), endpoint(4, "Drained"), endpoint(5, "OtherZones")},
		}}}},
		Problems: []nodestatus.Problem{{Object: "EndpointSlice shop/x", Reason: "Unusable", Field: "endpoints[0]", Text: "endpoints[0]: Required value"}},
	}
}

// merged returns what two nodes have found, as kubectl vmap reads it, with other names for the
// endpoints, and the sentences.
func merged(t *testing.T) (list []Merged, sentences []string) {
	t.Helper()
	var m Merger
	for i, node := range []string{"a", "b"} {
		l := ListOf(document(node, i+1))
		text, err := json.Marshal(WithTexts(l.Findings))
		l.Findings = nil
		if err == nil {
			err = json.Unmarshal(text, &l.Findings)
		}
		if err != nil {
			t.Fatal(err)
		}
		m.Add(node, l.Findings)
	}
	for _, f := range m.Sorted() {
		f.Each(func(f *Finding) { f.NameEndpoints(func(e string) string { return "pod of " + e }) })
		sentences = append(sentences, f.String())
		f.Each(func(f *Finding) { f.Text = "" })
		list = append(list, f)
	}
	return list, sentences
}

// TestNothingDependsOnSentences changes every sentence, and wants the same findings merged and
// counted, with the same fields, pods and nodes.
func TestNothingDependsOnSentences(t *testing.T) {
	want, before := merged(t)
	if len(want) < 10 {
		t.Fatalf("only %d findings are merged", len(want))
	}
	original := sentences
	defer func() { sentences = original }()
	sentences = map[string]string{}
	for key := range original {
		sentences[key] = key + "${#, einmal|, %d mal} Worte$named"
	}
	got, after := merged(t)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	changed := 0
	for i := range after {
		if len(got[i].Nodes) != 2 {
			t.Errorf("%s of node %v only", after[i], got[i].Nodes)
		}
		if after[i] != before[i] {
			changed++
		}
	}
	if changed != len(got)-1 { // the other one is an error
		t.Errorf("%d of %d sentences changed: %q", changed, len(got), after)
	}
}
