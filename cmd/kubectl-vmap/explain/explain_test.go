package explain

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/nft/foreign/simulate/path"
)

// TestPacketIsFollowedToEachNode has answers from before answers had a schema and replies.
func TestPacketIsFollowedToEachNode(t *testing.T) {
	r := newRig(t)
	r.withoutReplies()
	report := r.explain("pod/cart", "svc/web")
	r.expect(report, answer.Always, "pod shop/cart on node-1 -> service shop/web: arrives\n",
		"10.244.1.3 -> 10.96.55.163:80/tcp, ClusterIP of shop/web:tcp-80", "Arrives at any of 3 endpoints; the reply is not known",
		"node-1: goes to one of 3 endpoints; the client keeps its address",
		"node-1: 33.33% 10.244.1.2:8080 (pod shop/web-1), sees 10.244.1.3",
		"node-2: 33.33% 10.244.2.2:8080 (pod shop/web-2)", "node-3: 33.33% 10.244.3.2:8080 (pod shop/web-3)")
	slices.Sort(r.asked)
	if want := []string{
		"node-1 --observe=1s --namespace=shop --name=web 10.244.1.3,10.96.55.163:80/tcp",
		"node-2 --observe=0s --namespace=shop --name=web 10.244.1.3,10.244.2.2:8080/tcp",
		"node-3 --observe=0s --namespace=shop --name=web 10.244.1.3,10.244.3.2:8080/tcp",
	}; !slices.Equal(r.asked, want) {
		t.Errorf("asked %q, want %q", r.asked, want)
	}
	if len(report.Differences)+len(report.Silent) > 0 {
		t.Errorf("%+v", report)
	}
}

// TestRepliesAreFollowedBack has answers with replies, all of which reach the client, or of
// which one is dropped on the node of the endpoint, or on the client's.
func TestRepliesAreFollowedBack(t *testing.T) {
	r := newRig(t)
	r.expect(r.explain("pod/cart", "svc/web"), answer.Always, "Arrives at any of 3 endpoints, and the reply reaches the client")

	r.answers["node-2"] = r.recorded()
	const dropped = "but the reply is dropped by table inet filter, chain forward"
	r.expect(r.explain("pod/cart", "svc/web"), answer.Sometimes,
		"33.33% goes to 10.244.2.2:8080 (pod shop/web-2): on node node-2: 10.244.2.2:8080 answers 10.244.1.3 by way of node-2, ", dropped)

	r = newRig(t)
	reply := &r.answers["node-1"].Outcomes[0].Endpoints[2].Reply
	reply.Verdict, reply.By = path.VerdictDropped, path.RuleRef{Table: "inet filter", Chain: "forward", Rule: 2}
	r.answers["node-1"].Arrives = answer.Sometimes
	r.expect(r.explain("pod/cart", "svc/web"), answer.Sometimes,
		"33.33% goes to 10.244.3.2:8080 (pod shop/web-3): on node node-1: the endpoint answers 10.244.1.3", dropped)
}

// TestRepliesOfOneNodeAreTheirOwn has a rule on the client's node that drops the replies of one
// of two endpoints on a node, or half the replies of the only one.
func TestRepliesOfOneNodeAreTheirOwn(t *testing.T) {
	for n, half := range []bool{false, true, false} {
		r := newRig(t)
		s := r.objects["slice"].(*discoveryv1.EndpointSlice)
		s.Endpoints[2].NodeName = s.Endpoints[1].NodeName
		list := &r.answers["node-1"].Outcomes[0].Endpoints
		*list = (*list)[1:]
		if half {
			(*list)[1].Address = (*list)[0].Address
		}
		which := n / 2 // the followed one, or the other one
		lost := (*list)[which].Reply
		lost.Verdict, lost.By = path.VerdictDropped, path.RuleRef{Table: "inet filter", Chain: "forward", Rule: 2}
		(*list)[which].Reply = lost
		(*list)[0].Probability, (*list)[1].Probability = 0.5, 0.5
		r.answers["node-1"].Arrives = answer.Sometimes
		report := r.explain("pod/cart", "svc/web")
		r.expect(report, answer.Sometimes, "Does not always arrive: 50% goes to "+[]string{"10.244.2.2:8080 (pod shop/web-2)", "10.244.3.2:8080 (pod shop/web-3)"}[which]+": on node node-1: the endpoint answers 10.244.1.3",
			"but the reply is dropped by table inet filter, chain forward")
		if text := report.Text(false); strings.Contains(text, ": like ") {
			t.Error(text)
		}
		if e := report.Ways[0].Endpoints; len(e) != 2 || e[which].Arrives != answer.Never || e[1-which].Arrives != answer.Always {
			t.Errorf("half %t: %+v", half, e)
		}
	}
}

// TestMasqueradedPacketIsFollowedFromTheNode has endpoints that see an address of the node.
func TestMasqueradedPacketIsFollowedFromTheNode(t *testing.T) {
	r := newRig(t)
	for i := range r.answers["node-1"].Outcomes[0].Endpoints {
		r.answers["node-1"].Outcomes[0].Endpoints[i].Sees = netip.MustParseAddr("192.0.2.1")
	}
	r.explain("pod/cart:40000", "svc/web:80")
	if !slices.Contains(r.asked, "node-2 --observe=0s --namespace=shop --name=web 192.0.2.1,10.244.2.2:8080/tcp") {
		t.Error(r.asked)
	}
}

func TestDropOnTheNodeOfAnEndpointIsTheVerdict(t *testing.T) {
	r := newRig(t)
	r.answers["node-2"].Outcomes = []path.Outcome{{
		Verdict: path.VerdictDropped, Probability: 1, By: path.RuleRef{Table: "inet filter", Chain: "input", Rule: 7},
	}}
	r.answers["node-2"].Arrives = answer.Never
	report := r.explain("pod/cart", "svc/web")
	r.expect(report, answer.Sometimes, "Does not always arrive: 33.33% goes to 10.244.2.2:8080 (pod shop/web-2): on node node-2: dropped by table inet filter, chain input, rule handle 7",
		"node-2: 33.33% 10.244.2.2:8080 (pod shop/web-2), sees 10.244.1.3 (pod shop/cart): does not arrive: on node node-2")
	r.answers["node-1"].Outcomes[0].Endpoints = r.answers["node-1"].Outcomes[0].Endpoints[1:2]
	r.expect(r.explain("pod/cart", "svc/web"), answer.Never, "Does not arrive: on node node-2: dropped by table inet filter")
}

func TestPacketToAPodIsFollowedToItsNode(t *testing.T) {
	r := newRig(t)
	r.answers["node-1"] = newAnswer("10.244.2.2:8080", "2")
	r.answers["node-1"].Outcomes[0].Verdict = path.VerdictNotService
	r.expect(r.explain("pod/cart", "pod/web-2:8080"), answer.Always, "-> pod shop/web-2", ": arrives", "node-2: 100% 10.244.2.2:8080 (pod shop/web-2)")
	r.answers["node-2"] = r.recorded()
	r.expect(r.explain("pod/cart", "pod/web-2:8080"), answer.Never, "Does not arrive: on node node-2: ", "but the reply is dropped by table inet filter")
}

func TestEndpointsOfOneNodeAreFollowedOnce(t *testing.T) {
	r := newRig(t)
	s := r.objects["slice"].(*discoveryv1.EndpointSlice)
	s.Endpoints[2].NodeName = s.Endpoints[1].NodeName
	r.answers["node-2"].Arrives = answer.Never
	r.answers["node-2"].Outcomes[0].Verdict = path.VerdictDropped
	report := r.explain("pod/cart", "svc/web")
	r.expect(report, answer.Sometimes, "66.67% goes to 10.244.2.2:8080 (pod shop/web-2), 10.244.3.2:8080 (pod shop/web-3): on node node-2: dropped",
		"node-2: 33.33% 10.244.3.2:8080 (pod shop/web-3), sees 10.244.1.3 (pod shop/cart): like 10.244.2.2:8080")
	if len(r.asked) != 2 {
		t.Error(r.asked)
	}
}

// TestOnlySomeNodesOfManyEndpointsAreAsked has endpoints on 12 other nodes.
func TestOnlySomeNodesOfManyEndpointsAreAsked(t *testing.T) {
	r := newRig(t)
	s := r.objects["slice"].(*discoveryv1.EndpointSlice)
	endpoints := &r.answers["node-1"].Outcomes[0].Endpoints
	*endpoints = nil
	s.Endpoints = nil
	for i := range maxFollowed + 2 {
		n := "node-" + strconv.Itoa(10+i)
		address := "10.244." + strconv.Itoa(10+i) + ".2"
		*endpoints = append(*endpoints, path.Endpoint{Address: netip.MustParseAddr(address), Port: 8080, Probability: 1.0 / 12, Sees: netip.MustParseAddr("10.244.1.3"), Response: answer.Responds})
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, NodeName: &n})
		r.answers[n] = r.answers["node-2"]
		r.documents[n] = newDocument()
	}
	r.expect(r.explain("pod/cart", "svc/web"), answer.Always, "Arrives at any of 12 endpoints",
		"2 nodes of endpoints were not asked, and are assumed to treat packets as the others do")
	if len(r.asked) != 1+maxFollowed {
		t.Errorf("%d nodes were asked", len(r.asked))
	}
}

// TestNodeBehindTheAPIServerIsTheCause has a client on a node that lacks the endpoints, has one
// that is gone, or lacks the Service.
func TestNodeBehindTheAPIServerIsTheCause(t *testing.T) {
	r := newRig(t)
	r.documents["node-1"] = newDocument()
	r.documents["node-1"].Services[0].Ports[0].Frontends[0].Verdict = nodestatus.VerdictReject
	r.answers["node-1"].Arrives = answer.Never
	r.answers["node-1"].Outcomes = []path.Outcome{{Verdict: path.VerdictRefused, Probability: 1, How: "a TCP reset"}}
	report := r.explain("pod/cart", "svc/web")
	r.expect(report, answer.Never, "Does not arrive: on node node-1: rejected with a TCP reset\n  - node-1 does not have endpoints 10.244.1.2:8080 (pod shop/web-1), 10.244.2.2:8080")
	if text := report.Text(false); strings.Contains(text, "spec.selector") {
		t.Errorf("the selector is no cause:\n%s", text)
	}

	r = newRig(t)
	r.objects["slice"] = newSlice("1", "2")
	r.expect(r.explain("pod/cart", "svc/web"), answer.Unknown,
		"Not certain: 33.33% goes to 10.244.3.2:8080 (pod shop/web-3): no EndpointSlice has this endpoint, so its pod may be gone\n  - node-1 has endpoints 10.244.3.2:8080")

	r = newRig(t)
	a := r.answers["node-1"]
	a.Service, a.Kind = "", ""
	a.Outcomes = []path.Outcome{{Verdict: path.VerdictNotService, Probability: 1, Endpoints: []path.Endpoint{{Address: netip.MustParseAddr("10.96.55.163"), Port: 80, Probability: 1, Sees: netip.MustParseAddr("10.244.1.3")}}}}
	r.documents["node-1"].Services = nil
	r.expect(r.explain("pod/cart", "svc/web"), answer.Never,
		"Does not arrive: node node-1 does not have 10.96.55.163:80/tcp of service shop/web, and leaves the packet as it is\n  - node-1 does not have 10.96.55.163:80/tcp")
}

func TestServiceThatOnlyANodeHasIsADifference(t *testing.T) {
	r := newRig(t)
	delete(r.objects, "web")
	r.expect(r.explain("pod/cart", "10.96.55.163:80"), answer.Always, "node-1 has Service shop/web, which the API server does not have")
}

func TestSilentNodesAreNamedAndTheRestIsReported(t *testing.T) {
	r := newRig(t)
	r.errors["node-3"] = errors.New("no answer within 10s (--node-timeout)")
	report := r.explain("pod/cart", "svc/web")
	r.expect(report, answer.Unknown, "Not certain: 33.33% goes to 10.244.3.2:8080 (pod shop/web-3): node node-3 does not answer",
		"No answer, or not to everything:\n  node-3: no answer within 10s", "node-2: 33.33% 10.244.2.2:8080")
	if len(report.Silent) != 1 {
		t.Errorf("%+v", report.Silent)
	}
	r.errors["node-1"] = errors.New("no pod of kube-vmap")
	r.expect(r.explain("pod/cart", "svc/web"), answer.Unknown, "Not known: node node-1 does not answer", "node-1: no pod of kube-vmap")
}

func TestNodesThatDifferFromTheAPIServerAreNamed(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(r *rig, d *nodestatus.Document)
		arrives string
		want    []string
	}{
		{"endpoint is missing", func(r *rig, _ *nodestatus.Document) {
			r.documents["node-2"] = newDocument("1", "2")
			r.documents["node-2"].Health = &nodestatus.Health{Positions: []nodestatus.Position{{Kind: "EndpointSlice", ResourceVersion: "100"}}}
		}, answer.Always, []string{"node-2 does not have endpoints 10.244.3.2:8080 (pod shop/web-3), which EndpointSlices have (it has not seen the newest EndpointSlice of the Service)"}},
		{
			"endpoint is gone", func(r *rig, _ *nodestatus.Document) { r.objects["slice"] = newSlice("1", "2") }, answer.Unknown,
			[]string{"node-1 has endpoints 10.244.3.2:8080 (pod shop/web-3), which no EndpointSlice has", "node-2 has", "node-3 has"},
		},
		{
			"endpoint is not ready", func(_ *rig, d *nodestatus.Document) { d.Services[0].Ports[0].Endpoints[1].Ready = false }, answer.Always,
			[]string{"node-2 has endpoints 10.244.2.2:8080 (pod shop/web-2) as not ready, and EndpointSlices as ready"},
		},
		{
			"endpoint is not ready for one port of two", func(r *rig, d *nodestatus.Document) {
				s, slice := r.objects["web"].(*corev1.Service), r.objects["slice"].(*discoveryv1.EndpointSlice)
				udp, name := corev1.ProtocolUDP, "udp-80"
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: name, Port: 80, Protocol: udp})
				slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Port: slice.Ports[0].Port, Protocol: &udp})
				for _, d := range r.documents {
					p := d.Services[0].Ports[0]
					p.Name, p.Protocol, p.Endpoints = name, "UDP", slices.Clone(p.Endpoints)
					d.Services[0].Ports = append(d.Services[0].Ports, p)
				}
				d.Services[0].Ports[1].Endpoints[1].Conditions = &nodestatus.Conditions{}
			}, answer.Always,
			[]string{"node-2 has endpoints 10.244.2.2:8080 (pod shop/web-2) as not ready, and EndpointSlices as ready"},
		},
		{"frontend is missing", func(_ *rig, d *nodestatus.Document) { d.Services[0].Ports[0].Frontends = nil }, answer.Always, []string{"node-2 does not have 10.96.55.163:80/tcp"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			tc.change(r, r.documents["node-2"])
			report := r.explain("pod/cart", "svc/web")
			r.expect(report, tc.arrives, append([]string{"Nodes know something else about the Service than the API server:\n"}, tc.want...)...)
			if len(report.Differences) != len(tc.want) {
				t.Errorf("%+v", report.Differences)
			}
		})
	}
}

// TestCauseIsFoundAmongPods has a Service without endpoints, and why.
func TestCauseIsFoundAmongPods(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(r *rig, s *corev1.Service)
		want   string
	}{
		{"selector", func(_ *rig, s *corev1.Service) { s.Spec.Selector["app"] = "wbe" }, "Service shop/web, spec.selector: app=wbe: matches no pod in namespace shop; pods there have app=cart, app=web"},
		{
			"not ready", func(r *rig, _ *corev1.Service) {
				r.objects["web-1"] = newPod("web-1", "web", "node-1", "10.244.1.2", false)
			},
			"Pod shop/web-1, status.conditions Ready: is not ready: ContainersNotReady: containers with unready status: [web]; its readinessProbe decides that",
		},
		{
			"target port", func(_ *rig, s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("htpt") },
			"Service shop/web, spec.ports[].targetPort: htpt: no container of its pods declares a port of that name; they have http",
		},
		{
			"other proxy", func(_ *rig, s *corev1.Service) {
				s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"}
			},
			"Service shop/web, metadata.labels[service.kubernetes.io/service-proxy-name]: other: another proxy is responsible for the Service",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			tc.change(r, r.objects["web"].(*corev1.Service))
			r.objects["slice"] = newSlice()
			for n := range r.documents {
				r.documents[n] = newDocument()
			}
			r.answers["node-1"].Arrives = answer.Never
			r.answers["node-1"].Outcomes = []path.Outcome{{Verdict: path.VerdictRefused, Probability: 1, How: "a TCP reset"}}
			r.expect(r.explain("pod/cart", "svc/web"), answer.Never, "Does not arrive: on node node-1: rejected with a TCP reset\n  - "+tc.want)
		})
	}
}

// TestFindingsOfTheWayAreCauses has findings of the client's node, of which those about other
// ports, families and addresses do not concern the packet.
func TestFindingsOfTheWayAreCauses(t *testing.T) {
	const affinity = "Service shop/web, spec.sessionAffinity: ClientIP: each client keeps its endpoint"
	for _, tc := range []struct {
		name   string
		change func(*nodestatus.Port)
		want   bool
	}{
		{"affinity", func(*nodestatus.Port) {}, true},
		{"other family", func(p *nodestatus.Port) { p.Family = "IPv6" }, false},
		{"other protocol", func(p *nodestatus.Port) { p.Protocol = "SCTP" }, false},
		{"other port", func(p *nodestatus.Port) { p.Name = "metrics" }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			p := &r.documents["node-1"].Services[0].Ports[0]
			p.AffinitySeconds = 10800
			for i := range p.Endpoints {
				p.Endpoints[i].Slot = &i
			}
			tc.change(p)
			if text := r.explain("pod/cart", "svc/web").Text(false); strings.Contains(text, affinity) != tc.want {
				t.Errorf("want %v:\n%s", tc.want, text)
			}
		})
	}
	r := newRig(t)
	p := &r.documents["node-1"].Services[0].Ports[0]
	p.Frontends = append(p.Frontends, nodestatus.Frontend{Address: "203.0.113.1", Port: 80, Kind: "LoadBalancerIP", Restricted: true})
	if text := r.explain("pod/cart", "svc/web").Text(false); strings.Contains(text, "loadBalancerSourceRanges") {
		t.Errorf("source ranges of another address:\n%s", text)
	}
}

func TestControlCharactersOfMessagesAreReplaced(t *testing.T) {
	r := newRig(t)
	r.errors["node-1"] = errors.New("a\x1b[2J\u009bb")
	r.expect(r.explain("pod/cart", "svc/web"), answer.Unknown, "node-1: a?[2J?b")
}

// TestRefusingEndpointsAreInTheVerdict has endpoints that were seen to answer with a reset, all or
// some of them, and a conflict about another address and another port, which are not about the
// packet.
func TestRefusingEndpointsAreInTheVerdict(t *testing.T) {
	r := newRig(t)
	d := r.documents["node-1"]
	d.ObservedSeconds, d.Counted = 2, true
	for i := range d.Services[0].Ports[0].Endpoints {
		d.Services[0].Ports[0].Endpoints[i].Slot, d.Services[0].Ports[0].Endpoints[i].Refused = &i, 7
	}
	d.Services[0].Problems = []nodestatus.Problem{
		{Object: "Service shop/web:tcp-80", Reason: "AddressConflict", Field: "spec.externalIPs: 203.0.113.1", Text: "203.0.113.1:80/tcp is held by Service shop/older"},
		{Object: "Service shop/web:metrics", Reason: "Quarantined", Text: "the kernel refuses it"},
	}
	report := r.explain("pod/cart", "svc/web")
	r.expect(report, answer.Always, "service shop/web: the rules send packets to 3 endpoints; all refuse connections\n", "The rules send packets to 3 endpoints; all refuse connections\n"+
		"  - Service shop/web, spec.ports[].targetPort: 3 of 3 endpoints answer with a reset", ": 10.244.1.2:8080 (pod shop/web-1), 10.244.2.2:8080 (pod shop/web-2)")
	if strings.Contains(strings.ToLower(report.Text(false)), "arrives") {
		t.Error(report.Text(false))
	}
	if text := report.Text(false); strings.Contains(text, "203.0.113.1") || strings.Contains(text, "the kernel refuses") {
		t.Errorf("findings about others:\n%s", text)
	}
	d.Services[0].Ports[0].Endpoints[1].Refused = 0
	r.expect(r.explain("pod/cart", "svc/web"), answer.Always, "service shop/web: the rules send packets to 3 endpoints: 1 answering, 2 refusing connections\n",
		"connections\n  - Service shop/web, spec.ports[].targetPort: 2 of 3")
}

func TestUndeclaredTargetPortIsNamedWithThoseDeclared(t *testing.T) {
	r := newRig(t)
	r.objects["web"].(*corev1.Service).Spec.Ports[0].TargetPort = intstr.FromInt32(8081)
	r.expect(r.explain("pod/cart", "svc/web"), answer.Always,
		"spec.ports[].targetPort: 8081: no container of its pods declares that port, though a program may listen there; they have http 8080")
}

func TestAffinityAndStaleConnectionsAreNamed(t *testing.T) {
	r := newRig(t)
	a := r.answers["node-1"]
	a.Affinity = &path.Affinity{Endpoint: netip.MustParseAddrPort("10.244.1.2:8080"), ExpiresSeconds: 90}
	a.Connections = []answer.Connection{{}, {Stale: true}, {Stale: true}}
	r.expect(r.explain("pod/cart", "svc/web"), answer.Always, "spec.sessionAffinity: ClientIP: the client keeps 10.244.1.2:8080 for 1m30s more",
		"on node node-1, 2 open connections of the client to endpoints that get no new ones")
}

// TestClientOutsideEntersAtANode has a client whose packets arrive on the node of --to.
func TestClientOutsideEntersAtANode(t *testing.T) {
	r := newRig(t)
	r.answers["node-2"].To, r.answers["node-2"].Service = "192.0.2.2:30080", "shop/web:tcp-80"
	report := r.explain("198.51.100.7", "node/node-2:30080")
	r.expect(report, answer.Always, "198.51.100.7 outside the cluster -> node node-2")
	if !strings.HasPrefix(r.asked[0], "node-2 --observe=1s 198.51.100.7,192.0.2.2:30080/tcp") {
		t.Error(r.asked)
	}
	if report.Ways[0].Endpoints[0].Pod != "shop/web-2" {
		t.Errorf("%+v", report.Ways[0].Endpoints)
	}
}

func TestArrivalIsJoined(t *testing.T) {
	const a, s, n, u = answer.Always, answer.Sometimes, answer.Never, answer.Unknown
	for _, tc := range []struct {
		values         []string
		inTurn, either string
	}{
		{[]string{a, a}, a, a},
		{[]string{a, n}, n, s},
		{[]string{a, u}, u, u},
		{[]string{n, u}, n, u},
		{[]string{s, a}, s, s},
		{[]string{s, u}, u, s},
		{[]string{a, n, u}, n, s},
		{[]string{n, n}, n, n},
	} {
		if got := answer.InTurn(tc.values...); got != tc.inTurn {
			t.Errorf("in turn %v: %s, want %s", tc.values, got, tc.inTurn)
		}
		if got := answer.Either(tc.values...); got != tc.either {
			t.Errorf("either of %v: %s, want %s", tc.values, got, tc.either)
		}
	}
}

// TestSlicesThatNoNodeUsesAreNoDifference has slices of a family that the Service does not have,
// and of domain names.
func TestSlicesThatNoNodeUsesAreNoDifference(t *testing.T) {
	r := newRig(t)
	r.objects["web"].(*corev1.Service).Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	for kind, address := range map[discoveryv1.AddressType]string{discoveryv1.AddressTypeIPv6: "fd00:244::2", discoveryv1.AddressTypeFQDN: "web.example.com"} {
		s := newSlice("1")
		s.Name, s.AddressType = "web-"+strings.ToLower(string(kind)), kind
		s.Endpoints[0].Addresses = []string{address}
		r.objects[s.Name] = s
	}
	if report := r.explain("pod/cart", "svc/web"); len(report.Differences) > 0 {
		t.Errorf("%+v", report.Differences)
	}
}

// TestNodePortThatIsNotServedDoesNotArrive has a node at whose address no node ports are served.
func TestNodePortThatIsNotServedDoesNotArrive(t *testing.T) {
	r := newRig(t)
	s := r.objects["web"].(*corev1.Service)
	s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080
	const hint = "30080/tcp is the node port of shop/web, and is served at 10.9.0.1; 192.0.2.1 serves no node ports"
	r.answers["node-1"] = &answer.Answer{
		Schema: answer.Schema, From: "198.51.100.7", To: "192.0.2.1:30080", Protocol: "tcp", Interface: "eth0", Arrives: answer.Always, Hints: []string{hint},
		Outcomes: []path.Outcome{{
			Verdict: path.VerdictNotService, Probability: 1,
			Endpoints: []path.Endpoint{{Address: netip.MustParseAddr("192.0.2.1"), Port: 30080, Probability: 1, Sees: netip.MustParseAddr("198.51.100.7"), Node: true}},
		}},
	}
	r.expect(r.explain("198.51.100.7", "svc/web"), answer.Never,
		"Does not arrive: node node-1 does not have 192.0.2.1:30080/tcp of service shop/web, and leaves the packet as it is\n", hint)
}

// TestEachNodeRunsOneCommand has a dual-stack Service with four ports, and endpoints on ten other
// nodes; eight packets.
func TestEachNodeRunsOneCommand(t *testing.T) {
	r := newRig(t)
	web, slice := r.objects["web"].(*corev1.Service), r.objects["slice"].(*discoveryv1.EndpointSlice)
	web.Spec.ClusterIPs = append(web.Spec.ClusterIPs, "fd00:96::1")
	for i := range 3 {
		web.Spec.Ports = append(web.Spec.Ports, corev1.ServicePort{Name: "more-" + strconv.Itoa(i), Port: int32(81 + i), Protocol: corev1.ProtocolTCP})
	}
	cart := r.objects["cart"].(*corev1.Pod)
	cart.Status.PodIPs = append(cart.Status.PodIPs, corev1.PodIP{IP: "fd00:244::3"})
	endpoints := &r.answers["node-1"].Outcomes[0].Endpoints
	*endpoints, slice.Endpoints = nil, nil
	for i := range maxFollowed {
		n := "node-" + strconv.Itoa(10+i)
		address := "10.244." + strconv.Itoa(10+i) + ".2"
		*endpoints = append(*endpoints, path.Endpoint{Address: netip.MustParseAddr(address), Port: 8080, Probability: 0.1, Sees: netip.MustParseAddr("10.244.1.3"), Response: answer.Responds})
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, NodeName: &n})
		r.answers[n], r.documents[n] = r.answers["node-2"], newDocument()
	}
	for _, d := range r.documents { // no node differs, or it would be read again
		d.Source = nodestatus.FromKernel
	}
	report := r.explain("pod/cart", "svc/web")
	if len(r.asked) != 11 || len(report.Ways) != 8 {
		t.Errorf("%d commands about %d packets, want 11 about 8:\n%s", len(r.asked), len(report.Ways), strings.Join(r.asked, "\n"))
	}
	for _, asked := range r.asked {
		if n := strings.Count(asked, ","); n != 8 {
			t.Errorf("%d packets: %s", n, asked)
		}
	}
}
