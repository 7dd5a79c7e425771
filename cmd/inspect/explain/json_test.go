package explain

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/recorder"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
)

// TestJSONIsStable has a result with all fields, and compares its answer with testdata/answer.json,
// which scripts read.
func TestJSONIsStable(t *testing.T) {
	client, service, gone := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddrPort("10.96.0.10:53"), netip.MustParseAddrPort("10.244.1.9:53")
	node, hop := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.254")
	by := path.RuleRef{Table: "ip filter", Chain: "FORWARD", Rule: 7, Text: "drop"}
	ours := path.RuleRef{Table: "ip kube-vmap", Chain: "reject-chain", Rule: 3}
	delivered := simulate.Reply{Verdict: simulate.VerdictDelivered, From: service, To: netip.AddrPortFrom(client, 0)}
	elsewhere, stopped, later := delivered, delivered, delivered
	elsewhere.From, elsewhere.Bypasses = gone, true
	stopped.Verdict, stopped.By = simulate.VerdictDropped, by
	later.Verdict, later.How, later.By, later.Reason, later.Fault, later.Later = simulate.VerdictRefused, simulate.HowError, ours, recorder.ReasonFault, "chain a has no rules", true
	var outcomes []simulate.Outcome
	for i, r := range []simulate.Reply{delivered, elsewhere, stopped, later, {}} {
		e := simulate.Endpoint{Address: netip.AddrPortFrom(gone.Addr(), uint16(8080+i)), Probability: 0.1, Source: client, Reply: r, Out: simulate.Link{Index: 2, Name: "eth0"}}
		if i == 1 {
			e.Source, e.Via = node, hop
		}
		if i == 2 {
			e.Local, e.Out = true, simulate.Link{}
		}
		outcomes = append(outcomes, simulate.Outcome{Verdict: simulate.VerdictDelivered, Probability: 0.1, Endpoints: []simulate.Endpoint{e}, Masquerade: i == 1, Why: "because"})
	}
	outcomes = append(
		outcomes,
		simulate.Outcome{Verdict: simulate.VerdictNotService, Probability: 0.1},
		simulate.Outcome{Verdict: simulate.VerdictRefused, Probability: 0.1, How: simulate.HowReset, By: ours, Reason: recorder.ReasonNoEndpoint},
		simulate.Outcome{Verdict: simulate.VerdictDropped, Probability: 0.1, By: by, Stopped: []netip.AddrPort{gone}},
		simulate.Outcome{Verdict: simulate.VerdictUnreachable, Probability: 0.1, How: "no route"},
		simulate.Outcome{Verdict: simulate.VerdictUnknown, Probability: 0.1, How: "cannot predict"},
	)
	flow := simulate.Flow{
		Client: netip.AddrPortFrom(client, 4000), Requested: service, Endpoint: gone, SeenSource: netip.AddrPortFrom(client, 4000), State: "ESTABLISHED",
		Expires: 90 * time.Second, Started: time.Unix(1_700_000_000, 0).UTC(), Left: true,
	}
	a := NewAnswer(simulate.Result{
		Packet: simulate.Packet{From: client, FromPort: 4000, To: service, Protocol: model.UDP}, In: "eth0", ClientVia: hop, ToNode: true,
		Service: "kube-system/dns:dns", Kind: "ClusterIP", Outcomes: outcomes,
		Steps:      []path.Step{{Hook: "prerouting", Table: "ip kube-vmap", Chain: "dispatch", Rule: 3, Kind: path.StepLookup, Means: "finds-service", Text: "services has it", Endpoint: gone.String(), Similar: 2, Back: true, To: "a"}},
		Unexplored: path.Unexplored{Endpoints: 7, Probability: 0.1, OthersPick: true}, Affinity: &simulate.Affinity{Endpoint: gone, Expires: 100 * time.Second},
		Flow: &flow, Flows: []simulate.Flow{{Client: netip.AddrPortFrom(client, 4001), Endpoint: gone, SeenSource: netip.AddrPortFrom(node, 0), Status: 1 << 14}},
		IfNew: outcomes[:1], IfNewUnexplored: path.Unexplored{Probability: 0.5},
		Faults: []string{"chain a has no rules"}, NotFollowed: []string{"table ip filter"},
		Doubts: []simulate.Doubt{{Why: "a doubt"}, {Base: simulate.Chain{Table: simulate.Table{Family: "ip", Name: "filter"}, Name: "FORWARD"}, Rule: by, Why: "limit"}},
	})
	a.Interpret(&answer.Response{Process: "answers"}, "")
	var got bytes.Buffer
	if err := a.Print(&got, "json"); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "answer.json"))
	if err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%v, got %s", err, &got)
	}
}
