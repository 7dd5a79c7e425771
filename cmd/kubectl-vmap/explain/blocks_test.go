package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/explain/answer"
)

// sixWays are those to one Service, over each protocol and family.
func sixWays(verdict func(protocol, family string) string) *Report {
	r := &Report{Arrives: answer.Never, From: Party{Kind: "pod", Namespace: "shop", Name: "cart"}, To: Party{Kind: "service", Namespace: "shop", Name: "web"}}
	for _, protocol := range []string{"tcp", "udp", "sctp"} {
		for _, family := range []string{"IPv4", "IPv6"} {
			w := Way{Family: family, Protocol: protocol, From: "10.244.1.3", To: "10.96.0.1:80", Service: "shop/web:" + protocol, Kind: "ClusterIP", Verdict: verdict(protocol, family)}
			at := "10.244.2.2:8080"
			if family == "IPv6" {
				w.From, w.To, at = "fd00::1:3", "[fd00:96::1]:80", "[fd00::2:2]:8080"
			}
			w.Verdict = strings.NewReplacer("ENDPOINT", at, "TIME", fmt.Sprint(time.Duration(len(r.Ways)+58)*time.Second)).Replace(w.Verdict)
			w.Causes = []Cause{{Object: "Service shop/web", Field: "spec.x", Text: "of " + at + ", " + w.To + "/" + protocol + " and " + family}}
			w.Client.Node = "node-1"
			w.Client.Answer = &answer.Answer{Outcomes: []answer.Outcome{{Verdict: answer.VerdictDelivered, Probability: 1, Endpoints: []answer.Endpoint{{Sees: w.From}}}}}
			w.Endpoints = []Endpoint{{Address: at, Node: "node-2", Probability: 1, Sees: w.From, Arrives: answer.Never, Why: "dropped on the way to " + at}}
			r.Ways = append(r.Ways, w)
		}
	}
	return r
}

func TestWaysThatAreEqualUpToAddressesAreOneBlock(t *testing.T) {
	for _, tc := range []struct {
		name    string
		verdict func(protocol, family string) string
		titles  []string
	}{
		{
			"all", func(string, string) string {
				return "does not arrive: ENDPOINT: dropped (its range is 10.0.0.0/8), for TIME more."
			},
			[]string{"TCP, UDP, SCTP; IPv4 and IPv6: 10.244.1.3 -> 10.96.0.1:80, fd00::1:3 -> [fd00:96::1]:80, ClusterIP of shop/web\n"},
		},
		{
			"one protocol", func(protocol, _ string) string {
				return "refused with " + map[bool]string{true: "a TCP reset", false: "ICMP"}[protocol == "tcp"]
			},
			[]string{"TCP; IPv4 and IPv6: 10.244.1.3 -> 10.96.0.1:80, fd00::1:3 -> [fd00:96::1]:80, ClusterIP of shop/web:tcp\n", "UDP, SCTP; IPv4 and IPv6: "},
		},
		{
			"one way", func(protocol, family string) string { return fmt.Sprint("x is ", protocol+family == "tcpIPv4") },
			[]string{"10.244.1.3 -> 10.96.0.1:80/tcp, ClusterIP of shop/web:tcp\n", "TCP over IPv6, UDP over IPv4 and IPv6, SCTP over IPv4 and IPv6: "},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := sixWays(tc.verdict).Text(false)
			before, _, _ := strings.Cut(text, "\nThe way of ")
			if got := strings.Split(strings.TrimSpace(before), "\n\n")[1:]; len(got) != len(tc.titles) {
				t.Errorf("%d blocks:\n%s", len(got), text)
			}
			for _, title := range tc.titles {
				if !strings.Contains(text, "\n"+title) {
					t.Errorf("no %q in\n%s", title, text)
				}
			}
			if strings.Count(text, "The way of ") != 1 || !strings.Contains(text, "The way of 10.244.1.3 -> 10.96.0.1:80/tcp (TCP, UDP, SCTP; IPv4 and IPv6 alike):") {
				t.Error(text)
			}
		})
	}
}

// TestNumbersAreNotAddresses has texts that differ by what only looks like an address.
func TestNumbersAreNotAddresses(t *testing.T) {
	for _, texts := range [][2]string{{"rule handle 2", "rule handle 3"}, {"33.33% goes", "50% goes"}, {"since 12:30", "since 12:31"}, {"of v1.2", "of v1.3"}, {"pod a", "pod b"}} {
		if withoutAddresses(texts[0]) == withoutAddresses(texts[1]) {
			t.Errorf("%q equals %q", texts[0], texts[1])
		}
	}
}

func TestHeadlineNamesWhatIsRefused(t *testing.T) {
	r := sixWays(func(string, string) string { return "arrives" })
	r.Arrives = answer.Always
	for _, i := range []int{0, 1, 4} {
		r.Ways[i].Arrives, r.Ways[i].responses = answer.Always, answer.Responses{All: 1, Refuse: 1}
	}
	const want = "service shop/web: arrives, but all endpoints refuse connections to 80/tcp, 80/sctp\n"
	if text := r.Text(false); !strings.Contains(text, want) {
		t.Error(text)
	}
}
