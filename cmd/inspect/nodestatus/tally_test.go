package nodestatus

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestTallyHasOnlyWhatIsAddedUp(t *testing.T) {
	port := func(verdict string, connections uint64) Port {
		p := Port{Frontends: []Frontend{{Address: "10.96.0.1", Port: 80, Verdict: verdict}}}
		p.Connections, p.Active = connections, int(connections)/2
		return p
	}
	d := &Document{
		Ready: true, Counted: true, Problems: []Problem{{Object: "ServiceCIDR x", Reason: "Unusable", Text: "no prefix"}},
		Services: []Service{
			{Namespace: "shop", Name: "busy", Ports: []Port{port(VerdictBalance, 4), port(VerdictBalance, 2)}},
			{Namespace: "shop", Name: "idle", Ports: []Port{port(VerdictBalance, 0)}},
			{Namespace: "shop", Name: "local", Ports: []Port{port(VerdictDrop, 0)}},
			{Namespace: "shop", Name: "mine", Ports: []Port{{Frontends: []Frontend{{Kind: "ClusterIP", Verdict: VerdictDrop}}}}},
			{Namespace: "shop", Name: "none", Ports: []Port{port(VerdictReject, 0)}, Problems: []Problem{{Reason: ReasonNoPort, Text: "no port http"}}},
		},
	}
	text, err := json.Marshal(d.Tally())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"schema":1`, `"summary":{"services":5,"problems":2,"notices":1,"others":1}`, `ServiceCIDR x`,
		`"services":[{"namespace":"shop","name":"busy","connections":6,"active":3},` +
			`{"namespace":"shop","name":"local","state":"NoneLocal","connections":0,"active":0},` +
			`{"namespace":"shop","name":"mine","state":"NoneLocal","severity":"Problem","connections":0,"active":0},` +
			`{"namespace":"shop","name":"none","state":"NoPort","problem":"no port http","connections":0,"active":0}]`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the tally is %s, want %s in it", text, want)
		}
	}
	if text, _ := json.Marshal((&Document{}).Tally()); !strings.Contains(string(text), `"services":[]`) {
		t.Errorf("the tally of nothing is %s", text)
	}
}

func TestQueryRoundTripsThroughURL(t *testing.T) {
	for _, q := range []Query{{}, {Namespace: "shop"}, {Name: "web", Brief: true}, {Observe: 1500 * time.Millisecond}, {Namespace: "a&b=c", Name: "ü ?"}, {Namespace: "true", Name: "false"}} {
		u, err := url.ParseQuery(q.Values().Encode())
		if err != nil || ParseQuery(u) != q {
			t.Errorf("%+v becomes %+v, %v", q, ParseQuery(u), err)
		}
	}
}

func TestServiceWhoseEndpointsAllRefuseIsNotOK(t *testing.T) {
	for refused, want := range map[[2]int]string{{0, 0}: StateOK, {3, 0}: StateOK, {3, 1}: ReasonRefuses} {
		s := Service{Ports: []Port{{Frontends: []Frontend{{Verdict: VerdictBalance}}, Endpoints: []Endpoint{
			{Slot: new(int), Refused: refused[0]}, {Slot: new(int), Refused: refused[1]}, {Reason: "NotReady"},
		}}}}
		if got := s.State(); got != want {
			t.Errorf("refused %v times: %s, want %s", refused, got, want)
		}
	}
}
