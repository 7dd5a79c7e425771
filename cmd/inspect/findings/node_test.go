package findings_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// healthy returns the document of a node without problems.
func healthy() *nodestatus.Document {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &nodestatus.Document{Node: "node-1", Ready: true, Time: now, Health: &nodestatus.Health{
		Started: now.Add(-26 * time.Hour), Source: "API server",
		Positions: []nodestatus.Position{{Kind: "Service", ResourceVersion: "100"}, {Kind: "EndpointSlice", ResourceVersion: "101"}},
		Sync:      nodestatus.Sync{Last: now.Add(-time.Minute)},
		Protect:   true,
		Tables:    []nodestatus.Table{{Family: "IPv4", State: nodestatus.TableOwned}, {Family: "IPv6", State: nodestatus.TableOwned}},
		Repairs:   nodestatus.Count{Count: 7, Last: now.Add(-2 * time.Hour)},
		Warnings:  nodestatus.Count{Count: 9, Last: now.Add(-2 * time.Hour), Text: "old"},
		Takeover:  nodestatus.Takeover{State: nodestatus.TakeoverDone},
	}}
}

func TestFindingsOfANode(t *testing.T) {
	ago := func(d time.Duration) time.Time { return healthy().Time.Add(-d) }
	tests := []struct {
		name   string
		change func(d *nodestatus.Document, h *nodestatus.Health)
		want   string
	}{
		{"none", func(*nodestatus.Document, *nodestatus.Health) {}, ""},
		{"not known", func(d *nodestatus.Document, _ *nodestatus.Health) { d.Health, d.Ready = nil, false }, ""},
		{"not ready", func(d *nodestatus.Document, h *nodestatus.Health) {
			d.Ready, h.Started, h.Tables, h.Positions[1].ResourceVersion = false, ago(90*time.Second), nil, ""
		}, "Problem: nothing is programmed yet, 1m30s after the start: no list yet of EndpointSlice"},
		{"sync fails", func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.Sync = nodestatus.Sync{FailingSince: ago(3 * time.Hour), Error: "apply batch: no buffer space available", Overdue: true}
		}, "Problem: changes have not reached the kernel for 3h0m: apply batch: no buffer space available"},
		{"overdue", func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.Sync.PendingSince, h.Sync.Overdue = ago(time.Minute), true
		}, "Problem: changes have been waiting for the kernel for 1m0s"},
		{"tables cannot be read", func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.Sync.UnreadSince, h.Sync.Unread = ago(time.Minute), "read table ip kube-vmap: message is truncated"
		}, "Problem: changes of the tables by other programs have not been repaired for 1m0s: read table ip kube-vmap: message is truncated"},
		{"pending is no problem", func(_ *nodestatus.Document, h *nodestatus.Health) { h.Sync.PendingSince = ago(time.Second) }, ""},
		{"refused", func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.Refused = nodestatus.Refused{Ports: 1, Objects: 2, Conflicts: 3}
		}, `Problem: the kernel refuses 1 Service port
Notice: 2 objects cannot be used, wholly or in part
Notice: other Services hold 3 of the addresses and ports of Services`},
		{"tables", func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.Tables[0].State, h.Tables[1].State = nodestatus.TableOpen, nodestatus.TableDormant
		}, `Problem: the table of IPv6 is disabled by another program, so no packet reaches it
Notice: the table of IPv4 has no owner, so other programs can change it`},
		{"tables without protection", func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.Protect, h.Tables[0].State, h.Tables[1].State = false, nodestatus.TableOpen, nodestatus.TableMissing
		}, `Problem: the table of IPv6 is missing`},
		{"fast path", func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.FastPath = &nodestatus.FastPath{Reason: "rules of Calico may have to see every packet"}
		}, "Notice: the fast path is off: rules of Calico may have to see every packet"},
		{"fast path on", func(_ *nodestatus.Document, h *nodestatus.Health) { h.FastPath = &nodestatus.FastPath{On: true} }, ""},
		{"fast path not known yet", func(_ *nodestatus.Document, h *nodestatus.Health) { h.FastPath = &nodestatus.FastPath{} }, ""},
		{"API server", func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.Positions[0].FailingSince, h.Positions[0].Error = ago(time.Minute), "connection refused"
			h.Positions[1].FailingSince, h.Positions[1].Error = ago(50*time.Hour), "connection refused"
			h.Positions = append(h.Positions, nodestatus.Position{Kind: "Node", FailingSince: ago(time.Second), Error: "forbidden"})
		}, `Problem: the API server cannot be followed for 2d2h (Service, EndpointSlice): connection refused
Problem: the API server cannot be followed for 1s (Node): forbidden`},
		{"kernel", func(d *nodestatus.Document, _ *nodestatus.Health) {
			d.Problems = []nodestatus.Problem{{Reason: nodestatus.ReasonUnread, Text: "read the tables: EPERM"}, {Reason: nodestatus.ReasonUncertain, Text: "other"}}
		}, "Problem: the kernel cannot be read: read the tables: EPERM"},
		{"passive health checks", func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.PassiveHealth = &nodestatus.PassiveHealth{Endpoints: 3, Possibly: 2, LateSeconds: 184}
		}, `Notice: passive health checks are late: connections were last read 3m4s ago
Notice: 3 endpoints are unresponsive; kube-vmap problems lists them`},
		{"clients that wait", func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.WaitingPorts = 1
		}, "Notice: clients wait for an endpoint of 1 Service port; kube-vmap problems lists them"},
		{"an unresponsive endpoint", func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.PassiveHealth = &nodestatus.PassiveHealth{Endpoints: 1}
		}, "Notice: 1 endpoint is unresponsive; kube-vmap problems lists them"},
		{"of the node itself", func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.Problems = []nodestatus.Problem{
				{Reason: model.ProblemServiceCIDR, Text: "it overlaps"},
				{Reason: model.ProblemAPIServer, Text: "it is a Service"},
				{Reason: nodestatus.ReasonForwardRules, Text: "rules must accept"},
				{Reason: nodestatus.ReasonForwarding, Text: "nothing accepts"},
				{Reason: nodestatus.ReasonTracking, Text: "full"},
				{Reason: model.ProblemNodePorts, Text: "has an event"},
			}
		}, "Problem: it is a Service\nProblem: nothing accepts\nProblem: full\nNotice: it overlaps\nNotice: rules must accept"},
		{"take-over", func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.Takeover = nodestatus.Takeover{State: nodestatus.TakeoverProbation, Text: "suspended until then"}
		}, "Notice: suspended until then"},
		{"other proxy", func(_ *nodestatus.Document, h *nodestatus.Health) {
			h.Takeover = nodestatus.Takeover{State: nodestatus.TakeoverOtherProxy, Text: "kube-proxy runs"}
			h.Repairs.Last, h.Warnings.Last = ago(time.Minute), ago(2*time.Minute)
		}, `Problem: kube-proxy runs
Notice: tables that another program changed were repaired, last 1m0s ago; 7 times since the start
Notice: logged 2m0s ago: old`},
	}
	for _, test := range tests {
		d := healthy()
		test.change(d, d.Health)
		var lines []string
		for _, f := range findings.OfNode(d) {
			lines = append(lines, f.Severity+": "+f.Sentence())
		}
		if got := strings.Join(lines, "\n"); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, test.want)
		}
	}
}

// big returns a document with Services, and one Service with as many ports and another with
// as many endpoints, each with findings of three kinds.
func big(n int) *nodestatus.Document {
	slot := 0
	port := func(endpoints int) nodestatus.Port {
		p := nodestatus.Port{AffinitySeconds: 60, Frontends: []nodestatus.Frontend{{Address: "10.96.0.1", Port: 80, Verdict: nodestatus.VerdictBalance}}}
		for i := range endpoints {
			p.Endpoints = append(p.Endpoints, nodestatus.Endpoint{Address: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), Reason: "NotReady"})
		}
		p.Endpoints = append(p.Endpoints, nodestatus.Endpoint{Address: "192.0.2.1", Slot: &slot, Refused: 1}, nodestatus.Endpoint{Address: "192.0.2.2", Slot: &slot})
		return p
	}
	many := nodestatus.Service{Name: "ports"}
	d := &nodestatus.Document{Source: nodestatus.FromDaemon, Services: []nodestatus.Service{{Name: "endpoints", Ports: []nodestatus.Port{port(n)}}}}
	for i := range n {
		d.Services = append(d.Services, nodestatus.Service{Name: fmt.Sprint(i), Ports: []nodestatus.Port{port(1)}})
		many.Ports = append(many.Ports, port(1))
	}
	d.Services = append(d.Services, many)
	return d
}

func TestCostIsLinear(t *testing.T) {
	const services, kinds = 10_000, 3
	small, large := big(services/10), big(services)
	if got, want := len(findings.Of(large)), kinds*(services+2); got != want {
		t.Errorf("%d findings, want %d", got, want)
	}
	allocations := func(d *nodestatus.Document) float64 { return testing.AllocsPerRun(1, func() { findings.Of(d) }) }
	if a, b := allocations(small), allocations(large); b > 11*a {
		t.Errorf("%g allocations for %d Services, %g for %d", a, services/10, b, services)
	}
}
