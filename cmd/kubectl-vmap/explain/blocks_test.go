package explain

import (
	"fmt"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/nft/foreign/simulate/path"
)

// sixWays are those to one Service, over each protocol and family.
func sixWays(change func(*Way)) *Report {
	r := &Report{Arrives: answer.Never, From: Party{Kind: "pod", Namespace: "shop", Name: "cart"}, To: Party{Kind: "service", Namespace: "shop", Name: "web"}}
	for _, protocol := range []string{"tcp", "udp", "sctp"} {
		for _, family := range []string{"IPv4", "IPv6"} {
			w := Way{Family: family, Protocol: protocol, From: "10.244.1.3", To: "10.96.0.1:80", Service: "shop/web:" + protocol, Kind: "ClusterIP", Verdict: "does not arrive"}
			at := "10.244.2.2:8080"
			if family == "IPv6" {
				w.From, w.To, at = "fd00::1:3", "[fd00:96::1]:80", "[fd00::2:2]:8080"
			}
			w.Verdict += fmt.Sprintf(" at %s", at)
			w.Causes = []Cause{{Object: "Service shop/web", Field: "spec.x", Text: "of " + at + ", " + w.To + "/" + protocol + " and " + family}}
			w.Client.Node = "node-1"
			w.Client.Answer = &answer.Answer{Outcomes: []path.Outcome{{Verdict: path.VerdictDelivered, Probability: 1, Endpoints: []path.Endpoint{{Sees: answer.Addr(w.From)}}}}}
			w.Endpoints = []Endpoint{{Endpoint: path.Endpoint{Address: answer.AddrPort(at).Addr(), Port: 8080, Probability: 1, Sees: answer.Addr(w.From)}, On: "node-2", Arrives: answer.Never, Why: "dropped on the path to " + at}}
			change(&w)
			r.Ways = append(r.Ways, w)
		}
	}
	return r
}

func TestWaysThatAreEqualUpToAddressesAreOneBlock(t *testing.T) {
	const title = "10.244.1.3 -> 10.96.0.1:80/tcp, ClusterIP of shop/web:tcp"
	for _, tc := range []struct {
		name   string
		change func(*Way)
		titles []string
	}{
		{"all", func(*Way) {}, []string{title + " (alike: [fd00:96::1]:80/tcp, 10.96.0.1:80/udp, [fd00:96::1]:80/udp, 10.96.0.1:80/sctp, [fd00:96::1]:80/sctp)\n"}},
		{
			"one protocol", func(w *Way) { w.Answers = map[bool]string{true: answer.Never}[w.Protocol == "tcp"] },
			[]string{title + " (alike: [fd00:96::1]:80/tcp)\n", "10.244.1.3 -> 10.96.0.1:80/udp, ClusterIP of shop/web:udp (alike: [fd00:96::1]:80/udp, "},
		},
		{
			"one way", func(w *Way) {
				if w.Protocol+w.Family == "tcpIPv4" {
					w.Causes = nil
				}
			},
			[]string{title + "\n", "fd00::1:3 -> [fd00:96::1]:80/tcp, "},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := sixWays(tc.change).Text(false)
			before, _, _ := strings.Cut(text, "\nPath of ")
			if got := strings.Split(strings.TrimSpace(before), "\n\n")[1:]; len(got) != len(tc.titles) {
				t.Errorf("%d blocks:\n%s", len(got), text)
			}
			for _, want := range tc.titles {
				if !strings.Contains(text, "\n"+want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			if strings.Count(text, "Path of ") != 1 {
				t.Error(text)
			}
		})
	}
}
