package trace

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/trace"
)

// visited returns the steps at rules of our chains, in order.
func visited(w *trace.Path) (list []string) {
	for _, p := range w.Visits {
		for _, step := range p.Steps {
			if p.Chain.Table.Name == nft.TableName() && step.Kind == trace.KindRule {
				list = append(list, step.Chain+": "+simulate.VerdictText(&step.Verdict))
			}
		}
	}
	return list
}

func at(w *trace.Path, hook simulate.Hook, table string) *trace.Visit {
	for i := range w.Visits {
		if p := &w.Visits[i]; p.Chain.Hook == hook && strings.HasPrefix(p.Chain.Table.Name, table) {
			return p
		}
	}
	return &trace.Visit{}
}

// ended checks how a path ended, and returns where.
func ended(t *testing.T, w *trace.Path, want trace.Ending) (*trace.Visit, *trace.Step) {
	t.Helper()
	ending, p, step := w.End()
	if ending != want {
		t.Fatalf("ended as %d in %+v, want %d", ending, p, want)
	}
	return p, step
}

func TestPathThroughOurChains(t *testing.T) {
	s := newScene(t)
	for _, w := range daemon.Transports() {
		t.Run(w.String(), func(t *testing.T) {
			s.t = t
			tracer := s.open(trace.Config{Packet: s.packet(w, servicePort)})
			a := s.answered(w)
			path := s.path(tracer)
			s.expectNoMore(tracer)
			server := slices.IndexFunc(s.Pods, func(p *lab.Pod) bool { return p.Name == a.By })
			to := s.Pods[server].AddrPort(w.Family, targetPort)
			slot := []string{"0", "1"}[server]
			want := []string{
				"nat-prerouting: jump dispatch", "dispatch: goto cluster-2", "cluster-2: goto lb-2", "lb-2: goto ep-" + slot,
				"ep-" + slot + ": accept", "restore-prerouting: goto loop-check", "filter-forward: goto service-check",
			}
			if got := visited(path); !slices.Equal(got, want) {
				t.Errorf("visited\n%q, want\n%q", got, want)
			}
			if path.State != "new" || path.IsReply || path.Lost {
				t.Errorf("state %q, reply %t, lost %t", path.State, path.IsReply, path.Lost)
			}
			nat := at(path, "prerouting", nft.TableName()+"-trace")
			if nat.Packet.To != netip.AddrPortFrom(clusterIPs[w.Family], servicePort) || nat.In != s.Pods[2].Link {
				t.Errorf("it came as %s by %s", nat.Packet, nat.In)
			}
			end, _ := ended(t, path, trace.EndingSent)
			if end.Packet.To != to || end.Packet.Source() != a.Local.String() || end.Out != s.Pods[server].Link {
				t.Errorf("it left as %s by %s, for %s", end.Packet, end.Out, a)
			}
		})
	}
}

// The endpoint is on the node; the client is a pod, and the node itself by the loopback, where packets
// pass the hooks twice.
func TestLocalPacketsAreDelivered(t *testing.T) {
	s := newScene(t)
	for _, w := range daemon.Transports() {
		service, itself := s.packet(w, nodePort).To, s.Node.AddrPort(w.Family, targetPort)
		for _, tc := range []struct {
			from *lab.Host
			to   netip.AddrPort
		}{{s.client, service}, {s.Node.Host, service}, {s.Node.Host, itself}} {
			tracer := s.open(trace.Config{Packet: simulate.Packet{From: tc.from.Addr(w.Family), To: tc.to, Protocol: w.Protocol}})
			if a, err := tc.from.Ask(w.Protocol, tc.to, timeout); err != nil || a.By != s.Node.Name {
				t.Fatalf("%s from %s: %s, %v", w, tc.from, a, err)
			}
			path := s.path(tracer)
			s.expectNoMore(tracer)
			end, _ := ended(t, path, trace.EndingDelivered)
			if end.Packet.To != itself {
				t.Errorf("%s from %s: delivered as %s", w, tc.from, end.Packet)
			}
			own := tc.from == s.Node.Host
			if own != (at(path, "output", nft.TableName()).Chain.Name != "") || own && at(path, "prerouting", trace.TableName).In != "lo" {
				t.Errorf("%s from %s to %s: visited %+v", w, tc.from, tc.to, path.Visits)
			}
			if n, err := tracer.Matched(); n != 1 || err != nil {
				t.Errorf("%s from %s to %s: %d packets matched, %v", w, tc.from, tc.to, n, err)
			}
			s.must(tracer.Close())
		}
	}
}

func TestRepliesAreFollowed(t *testing.T) {
	for name, options := range map[string]lab.Options{"links": links, "bridge": bridge} {
		t.Run(name, func(t *testing.T) {
			s := newSceneIn(t, options)
			for _, w := range daemon.Transports() {
				tracer := s.open(trace.Config{Packet: s.packet(w, servicePort), Replies: true})
				a := s.answered(w)
				path := s.path(tracer)
				for !path.IsReply {
					path = s.path(tracer)
				}
				end, _ := ended(t, path, trace.EndingSent)
				if end.Packet.Source() != netip.AddrPortFrom(clusterIPs[w.Family], servicePort).String() || end.Packet.To != a.Local {
					t.Errorf("%s: the answer left as %s", w, end.Packet)
				}
				if end.Packet.From == path.Visits[0].Packet.From {
					t.Errorf("%s: the answer was not translated back: %s", w, end.Packet)
				}
				s.must(tracer.Close())
			}
		})
	}
}

// TestReplyOfTheNodeToItselfIsOnePath has a reply that comes in again by the loopback.
func TestReplyOfTheNodeToItselfIsOnePath(t *testing.T) {
	s := newScene(t)
	for _, w := range daemon.Transports() {
		to := netip.AddrPortFrom(clusterIPs[w.Family], nodePort)
		tracer := s.open(trace.Config{Packet: simulate.Packet{From: s.Node.Addr(w.Family), To: to, Protocol: w.Protocol}, Replies: true})
		s.ask(s.Node.Host, w, nodePort)
		path := s.path(tracer)
		for !path.IsReply {
			path = s.path(tracer)
		}
		ended(t, path, trace.EndingDelivered)
		s.must(tracer.Close())
	}
}

// Later packets of a connection have another state in conntrack.
func TestEveryPacketIsFollowed(t *testing.T) {
	s := newScene(t)
	for _, w := range daemon.Transports() {
		tracer := s.open(trace.Config{Packet: s.packet(w, servicePort), Every: true, Rate: 100})
		flow, err := s.client.Flow(w.Protocol, netip.AddrPort{}, netip.AddrPortFrom(clusterIPs[w.Family], servicePort))
		s.must(err)
		for range 2 {
			if a, err := flow.Ask(timeout); err != nil || a.Outcome != lab.Answered {
				t.Fatal(a, err)
			}
		}
		if first := s.path(tracer); first.State != "new" {
			t.Errorf("%s: the first packet is %q", w, first.State)
		}
		second := s.path(tracer)
		ended(t, second, trace.EndingSent)
		if second.State != "established" || slices.ContainsFunc(visited(second), func(v string) bool { return strings.HasPrefix(v, "nat-") }) {
			t.Errorf("%s: the second packet is %q and came through %q", w, second.State, visited(second))
		}
		s.must(flow.Close())
		s.must(tracer.Close())
	}
}

// TestPacketsWithReusedIDsAreFollowed has packets that follow each other so fast that the kernel uses
// their IDs again, where it gives a packet a second one.
func TestPacketsWithReusedIDsAreFollowed(t *testing.T) {
	for name, options := range map[string]lab.Options{"loopback": links, "bridge": bridge} {
		t.Run(name, func(t *testing.T) {
			s := newSceneIn(t, options)
			client := s.client
			if name == "loopback" {
				client = s.Node.Host
			}
			for _, w := range daemon.Transports() {
				p := simulate.Packet{From: client.Addr(w.Family), To: s.packet(w, nodePort).To, Protocol: w.Protocol}
				tracer := s.open(trace.Config{Packet: p, Every: true, Rate: 1000})
				flow, err := client.Flow(w.Protocol, netip.AddrPort{}, p.To)
				s.must(err)
				for range 5 {
					if a, err := flow.Ask(timeout); err != nil || a.Outcome != lab.Answered {
						t.Fatal(a, err)
					}
				}
				s.must(flow.Close())
				n, err := tracer.Matched()
				s.must(err)
				for range n {
					ended(t, s.path(tracer), trace.EndingDelivered)
				}
				s.must(tracer.Close())
			}
		})
	}
}

func TestOnlyMatchingPacketsAreFollowed(t *testing.T) {
	s := newScene(t)
	other := map[model.Protocol]model.Protocol{model.TCP: model.UDP, model.UDP: model.SCTP, model.SCTP: model.TCP}
	s.nft("table inet others { chain c { type filter hook prerouting priority -350; meta nftrace set 1; }; }")
	for _, w := range daemon.Transports() {
		p := s.packet(w, servicePort)
		p.FromPort = 40_000
		tracer := s.open(trace.Config{Packet: p})
		s.ask(s.client, w, servicePort)                                                               // from another port
		s.ask(s.Node.Host, w, servicePort)                                                            // from another address
		s.ask(s.client, daemon.Transport{Protocol: other[w.Protocol], Family: w.Family}, servicePort) // over another protocol
		s.expectNoMore(tracer)
		if n, err := tracer.Matched(); n != 0 || err != nil {
			t.Errorf("%s: %d packets matched, %v", w, n, err)
		}
		from := s.client.AddrPort(w.Family, 40_000)
		_, err := s.client.AskFrom(w.Protocol, from, p.To, timeout)
		s.must(err)
		if path := s.path(tracer); path.Visits[0].Packet.Source() != from.String() {
			t.Errorf("%s: followed %s", w, path.Visits[0].Packet)
		}
		if n, err := tracer.Matched(); n == 0 || err != nil {
			t.Errorf("%s: %d packets matched, %v", w, n, err)
		}
		s.must(tracer.Close())
	}
}
