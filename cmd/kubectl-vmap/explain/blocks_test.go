package explain

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/resolve"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate/path"
)

// sixWays are those to one Service, over each protocol and family.
func sixWays(change func(*Way)) *Report {
	r := &Report{Arrives: answer.Never, From: resolve.Object{Kind: "pod", Namespace: "shop", Name: "cart"}, To: resolve.Object{Kind: "service", Namespace: "shop", Name: "web"}}
	for _, protocol := range []string{"tcp", "udp", "sctp"} {
		for _, family := range []string{"IPv4", "IPv6"} {
			w := Way{Family: family, Protocol: protocol, From: "10.244.1.3", To: "10.96.0.1:80", Service: "shop/web:" + protocol, Kind: "ClusterIP", Verdict: "does not arrive"}
			at := "10.244.2.2:8080"
			if family == "IPv6" {
				w.From, w.To, at = "fd00::1:3", "[fd00:96::1]:80", "[fd00::2:2]:8080"
			}
			w.Verdict += fmt.Sprintf(" at %s", at)
			w.Causes = []resolve.Cause{{Object: "Service shop/web", Field: "spec.x", Text: "of " + at + ", " + w.To + "/" + protocol + " and " + family}}
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

// TestAddressOfAnotherServiceIsInTheHeadline has addresses and node ports that another Service
// holds: one that is older, or that has the address by its ClusterIP.
func TestAddressOfAnotherServiceIsInTheHeadline(t *testing.T) {
	for _, tc := range []struct {
		to, kind, field string
		change          func(*corev1.Service)
	}{
		{"203.0.113.1:80", "ExternalIP", "spec.externalIPs: 203.0.113.1", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.1"} }},
		{"203.0.113.1:80", "LoadBalancerIP", "status.loadBalancer.ingress[].ip: 203.0.113.1", func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}
		}},
		{"192.0.2.1:30080", "NodePort", "spec.ports[].nodePort: 30080", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30080 }},
		{"10.96.0.9:80", "ClusterIP", "spec.externalIPs: 10.96.0.9", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"10.96.0.9"} }},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			r := newRig(t)
			web := r.objects["web"].(*corev1.Service)
			older := web.DeepCopy()
			older.Name, older.Spec.ClusterIPs = "older", nil
			web.CreationTimestamp = metav1.Unix(2, 0)
			older.CreationTimestamp = metav1.Unix(1, 0)
			tc.change(web)
			r.objects["older"], r.objects["older-1"] = older, newPod("older-1", "older", "node-1", "10.244.1.9", true)
			r.answers["node-1"] = &answer.Answer{
				Schema: answer.Schema, To: tc.to, Protocol: "tcp", Service: "shop/older:web", Kind: tc.kind, Arrives: answer.Always,
				Outcomes: []path.Outcome{{Verdict: path.VerdictDelivered, Probability: 1, Endpoints: []path.Endpoint{
					{Address: netip.MustParseAddr("10.244.1.9"), Port: 8080, Probability: 1, Sees: netip.MustParseAddr("198.51.100.7")},
				}}},
			}
			r.documents["node-1"].Services[0].Problems = []nodestatus.Problem{conflictOf("shop/web", tc.field, tc.to+"/tcp"), conflictOf("shop/web", "spec.externalIPs: 203.0.113.9", "203.0.113.9:80/tcp")}
			if tc.kind == "NodePort" {
				r.documents["node-1"].Services[0].Problems[0].Names = []string{"*:30080/tcp"}
			}
			report := r.explain("198.51.100.7", "svc/web")
			r.expect(report, answer.Never, "198.51.100.7 outside the cluster -> service shop/web: does not arrive: "+tc.to+" belongs to service shop/older (its "+tc.kind+")\n",
				"Does not arrive at service shop/web: "+tc.to+" belongs to service shop/older", "  - Service shop/web, "+tc.field+": ", " is held by Service shop/older",
				"node-1: 100% 10.244.1.9:8080 (pod shop/older-1)")
			if text := report.Text(false); strings.Contains(text, "not certain") || strings.Contains(text, "203.0.113.9") || strings.Contains(text, "no EndpointSlice") {
				t.Error(text)
			}
		})
	}
}

func TestServicesThatClaimAnAddressInVainAreCauses(t *testing.T) {
	r := newRig(t)
	s := &r.documents["node-1"].Services[0]
	for _, at := range [][]string{{"10.96.55.163:80/sctp", "10.96.55.163:80/tcp"}, {"10.96.55.163:80/udp"}, {"10.96.55.163:8/tcp"}} {
		p := conflictOf("shop/young", "spec.externalIPs: 10.96.55.163", at...)
		p.Text = (&nodestatus.Finding{Reason: p.Reason, Args: p.Args}).Sentence()
		s.Contested = append(s.Contested, p)
	}
	const cause = "Service shop/young, spec.externalIPs: 10.96.55.163: 10.96.55.163:80/sctp, 10.96.55.163:80/tcp are held by Service shop/older"
	report := r.explain("pod/cart", "10.96.55.163:80")
	r.expect(report, answer.Always, cause)
	if strings.Count(report.Text(false), "shop/young") != 1 || strings.Contains(r.explain("pod/cart", "svc/web").Text(false), "shop/young") {
		t.Error(report.Text(false))
	}
}

// conflictOf is why a Service does not have addresses and ports.
func conflictOf(name, field string, at ...string) nodestatus.Problem {
	return nodestatus.Problem{
		Object: "Service " + name, Reason: model.ProblemConflict, Field: field,
		Args: nodestatus.Args{Names: at, Number: len(at), Message: "shop/older"},
	}
}
