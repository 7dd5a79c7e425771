package faults

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// at returns the addresses of a Service of one kind of frontend.
func (s *scene) at(service daemon.Service, kind model.Kind, port int) func(model.Family) netip.AddrPort {
	return func(f model.Family) netip.AddrPort { return service.AddrPort(s.lab.Node, f, kind, port) }
}

func TestWrongPort(t *testing.T) {
	s := newScene(t)
	web := s.web(nil)
	s.put(web)
	s.each(t, s.client(), s.at(web, model.KindClusterIP, 1), func(s *scene, q question) {
		s.expectOutcome(q, lab.Refused)
		s.explains(q, "Result: rejected", "the address is a Service's, which has no such port", "is an address of default/web, which has 80/")
	})
}

func TestNoEndpoints(t *testing.T) {
	s := newScene(t)
	web := s.web(func(w *daemon.Service) { w.Endpoints = nil })
	s.put(web)
	s.expectOutput([]string{"get", "services"}, "NoEndpoints")
	s.each(t, s.client(), s.at(web, model.KindClusterIP, 0), func(s *scene, q question) {
		s.expectOutcome(q, lab.Refused)
		s.explains(q, "Result: rejected", "the Service has no endpoint that is ready and not drained", "endpoint in any EndpointSlice")
	})
}

func TestDrainedEndpoints(t *testing.T) {
	s := newScene(t)
	some := s.web(func(w *daemon.Service) { w.Weights = []int{0, 2} })
	all := s.web(func(w *daemon.Service) {
		w.Name, w.Number, w.Weights = "drained", 2, []int{0, 0}
	})
	s.put(some, all)
	s.expectOutput([]string{"get", "endpoints"}, "Drained")
	s.each(t, s.client(), s.at(some, model.KindClusterIP, 0), func(s *scene, q question) {
		s.expectOutcome(q, lab.Answered)
		s.explains(q, "1 of 2 endpoints has weight 0: "+s.pods[0].AddrPort(q.Family, daemon.TargetPort).String())
	})
	s.each(t, s.client(), s.at(all, model.KindClusterIP, 0), func(s *scene, q question) {
		s.expectOutcome(q, lab.Refused)
		s.explains(q, "Result: rejected", "the Service has no endpoint that is ready and not drained", "2 of 2 endpoints have weight 0")
	})
}

func TestLocalPolicyWithoutLocalEndpoint(t *testing.T) {
	s := newScene(t)
	web := s.web(func(w *daemon.Service) {
		w.Kinds, w.LocalOutside = []model.Kind{model.KindLoadBalancerIP}, true
		w.Endpoints = []*lab.Host{s.lab.RemotePods[0].Host}
	})
	s.put(web)
	s.expectOutput([]string{"get", "frontends"}, "Drop")
	s.each(t, s.lab.Outside, s.at(web, model.KindLoadBalancerIP, 0), func(s *scene, q question) {
		s.expectOutcome(q, lab.TimedOut)
		s.explains(q, "Result: dropped", "its policy is Local and none of them is on this node",
			"the only endpoint that serves is on another node")
	})
}

func TestClientOutsideSourceRanges(t *testing.T) {
	s := newScene(t)
	web := s.web(func(w *daemon.Service) {
		w.Kinds, w.Sources = []model.Kind{model.KindLoadBalancerIP}, []string{"203.0.113.128/25", "2001:db8:77::/48"}
	})
	s.put(web)
	s.each(t, s.lab.Outside, s.at(web, model.KindLoadBalancerIP, 0), func(s *scene, q question) {
		s.expectOutcome(q, lab.TimedOut)
		s.explains(q, "Result: dropped", "the client is in none of the source ranges of the Service", "may connect (spec.loadBalancerSourceRanges)")
	})
}

func TestDroppedByAnotherTable(t *testing.T) {
	s := newScene(t)
	web := s.web(nil)
	s.put(web)
	s.nft(`add table inet firewall
		add chain inet firewall forward { type filter hook forward priority 10; policy accept; }
		add rule inet firewall forward meta l4proto { tcp, udp, sctp } th dport 8080 counter drop comment "no servers here"`)
	s.each(t, s.client(), s.at(web, model.KindClusterIP, 0), func(s *scene, q question) {
		s.expectOutcome(q, lab.TimedOut)
		s.explains(q, "Result: dropped by table inet firewall, chain forward, rule handle ")
		s.doesNotExplain(q, "From the running kube-vmap") // which is not the cause
		s.traces(q, "inet firewall", "no servers here")
	})
}

// TestStaleUDPFlow tests a flow that began under rules that are gone: it continues to its
// old endpoint as long as it has packets.
func TestStaleUDPFlow(t *testing.T) {
	s := newScene(t)
	web := s.web(nil)
	s.put(web)
	// Otherwise it might still be looking for stale flows, and find this one.
	s.proxy.AwaitMessages(len(model.Families), "stale flows deleted")
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			s.t = t
			name, dead := nft.FamilyName(f), s.unusedEndpoint(f)
			to := s.at(web, model.KindClusterIP, 0)(f)
			client := s.client().AddrPort(f, 10000)
			if s.staleFlow(name, client, to, dead) == lab.Answered {
				t.Fatal("the flow does not continue to its old endpoint")
			}
			s.expectOutput([]string{"explain", "--from", client.String(), "--to", to.String() + "/udp"},
				"The packet belongs to an open connection", fmt.Sprintf("from port %d to %s", client.Port(), dead), "no new connection would go there")
		})
	}
}

// staleFlow lets another table send a UDP flow to an endpoint of no Service, and returns
// the outcome of the flow after that table is deleted.
func (s *scene) staleFlow(family string, from, to, dead netip.AddrPort) lab.Outcome {
	s.t.Helper()
	s.nft(fmt.Sprintf(`add table %[1]s old
		add chain %[1]s old c { type nat hook prerouting priority -110; }
		add rule %[1]s old c udp sport %[2]d dnat to %[3]s`, family, from.Port(), dead))
	flow, err := s.client().Flow(model.UDP, from, to)
	if err != nil {
		s.t.Fatal(err)
	}
	var a lab.Answer
	for _, after := range []string{"delete table " + family + " old", ""} {
		if a, err = flow.Ask(patience); err != nil {
			s.t.Fatal(err)
		}
		s.nft(after)
	}
	return a.Outcome
}

// traces traces one packet of the question, which is asked until the trace has it.
func (s *scene) traces(q question, want ...string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for ctx.Err() == nil {
			_, _ = q.from.Ask(q.Protocol, q.to, patience) // the outcome is known
		}
	}()
	s.expectOutput(append(q.explain(), "--trace", "--count", "1", "--timeout", "20s"), want...)
	cancel()
	<-asked
}

// unusedEndpoint returns an endpoint of no Service.
func (s *scene) unusedEndpoint(f model.Family) netip.AddrPort {
	return s.pods[0].AddrPort(f, daemon.TargetPort+50)
}

func TestSessionAffinity(t *testing.T) {
	s := newScene(t)
	web := s.web(func(w *daemon.Service) { w.Affinity = time.Hour })
	s.put(web)
	s.each(t, s.client(), s.at(web, model.KindClusterIP, 0), func(s *scene, q question) {
		var by string
		for range 4 { // always the same
			a, err := q.from.Ask(q.Protocol, q.to, answer)
			if err != nil || a.Outcome != lab.Answered || by != "" && a.By != by {
				s.t.Fatalf("%v, %v, after %s", a, err, by)
			}
			by = a.By
		}
		for _, p := range s.pods {
			if p.Name == by {
				s.explains(q, "Session affinity (spec.sessionAffinity: ClientIP): the client keeps "+p.AddrPort(q.Family, daemon.TargetPort).String())
			}
		}
	})
}

func TestHintForAnotherZone(t *testing.T) {
	s := newScene(t)
	near := s.web(func(w *daemon.Service) { w.Endpoints, w.Zone = s.pods[:1], daemon.Zone(s.lab.Node) })
	far := s.web(func(w *daemon.Service) { w.Endpoints, w.Zone = s.pods[1:], "elsewhere" })
	text := string(s.folder.Text(near))
	slices := farSlices(string(s.folder.Text(far)))
	s.proxy.After(func() { s.folder.Write("web", []byte(text+slices)) })
	s.expectOutput([]string{"get", "endpoints"}, "OtherZones")
	s.each(t, s.client(), s.at(near, model.KindClusterIP, 0), func(s *scene, q question) {
		s.expectOutcome(q, lab.Answered)
		s.explains(q, "because hints assign it to other zones: "+s.pods[1].AddrPort(q.Family, daemon.TargetPort).String())
	})
}

// farSlices returns the EndpointSlices of manifests, renamed.
func farSlices(manifests string) string {
	var out strings.Builder
	for doc := range strings.SplitSeq(manifests, "---\n") {
		if strings.Contains(doc, "kind: EndpointSlice") {
			out.WriteString("---\n" + strings.Replace(doc, "  name: web-", "  name: far-", 1))
		}
	}
	return out.String()
}

func TestAddressConflict(t *testing.T) {
	s := newScene(t)
	external := func(name string, number int) daemon.Service {
		return s.web(func(w *daemon.Service) {
			w.Name, w.Number, w.Kinds = name, number, []model.Kind{model.KindExternalIP}
			w.Endpoints = s.pods[:number]
		})
	}
	first, second := external("first", 1), external("second", 2)
	text := string(s.folder.Text(first, second))
	for _, f := range model.Families {
		text = strings.ReplaceAll(text, second.Addr(f, model.KindExternalIP).String(), first.Addr(f, model.KindExternalIP).String())
	}
	s.proxy.Ignore("another Service holds the address and port")
	s.proxy.After(func() { s.folder.Write("web", []byte(text)) })
	s.expectOutput([]string{"get", "services", "second"}, "AddressConflict")
	s.each(t, s.lab.Outside, s.at(first, model.KindExternalIP, 0), func(s *scene, q question) {
		s.expectOutcome(q, lab.Answered)
		s.explains(q, "asks for default/first", "Service default/second")
	})
}

func TestDrift(t *testing.T) {
	s := newScene(t, "--protect-tables=false")
	web := s.web(nil)
	s.put(web)
	s.proxy.Kill() // or it would repair the tables within a second
	s.nft("flush map ip kube-vmap services; flush map ip6 kube-vmap services")
	s.each(t, s.client(), s.at(web, model.KindClusterIP, 0), func(s *scene, q question) {
		s.expectOutcome(q, lab.Refused)
		s.explains(q, "services does not have "+q.to.Addr().String(), "kube-vmap diff --manifests")
	})
	s.expectOutput([]string{
		"diff", "--protect-tables=false", "--manifests", s.folder.Dir(), "--hostname-override", s.lab.Node.Name, daemon.PodRanges,
	}, "+ ip kube-vmap map services: ", "+ ip6 kube-vmap map services: ")
}

// nft runs nft commands on the node.
func (s *scene) nft(commands string) {
	s.t.Helper()
	if output, err := s.lab.Node.Command(s.t.Context(), "nft", commands).CombinedOutput(); err != nil {
		s.t.Fatalf("nft: %v: %s", err, output)
	}
}
