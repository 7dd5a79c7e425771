package diagnosis

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

// TestRefusalsAreThoseOfEndpoints sends packets that an endpoint answers with a reset, an
// abort or "port unreachable", or not at all, next to ones that are served, and observes.
func TestRefusalsAreThoseOfEndpoints(t *testing.T) {
	l := newScene(t, 2, 1)
	served := daemon.Service{Name: "served", Number: 1, Endpoints: []*lab.Host{l.Pods[0].Host}}
	wrong := daemon.Service{Name: "wrong", Number: 2, ServicePorts: daemon.EveryProtocol("p-", daemon.Port, daemon.TargetPort+9, 0), EndpointSpec: "pod-1"}
	silent := daemon.Service{Name: "silent", Number: 3, Endpoints: []*lab.Host{l.RemotePods[0].Host}}
	l.folder.Put("services", served, wrong, silent)
	daemon.Start(t, l.Node, l.folder, "--passive-health-checks=off") // only what is observed
	silence(t, l.RemotePods[0].Host)
	stop, done, rounds := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			var round errgroup.Group // all at once, so that every observation sees each on a busy machine
			for _, w := range daemon.Transports() {
				for _, s := range []daemon.Service{served, wrong, silent} {
					patience := 50 * time.Millisecond
					if s.Name == served.Name { // a client that gives up aborts what was served
						patience = answer
					}
					round.Go(func() error {
						_, _ = l.Pods[1].AskFresh(w.Protocol, netip.Addr{}, s.ClusterAddrPort(w.Family), patience)
						return nil
					})
				}
			}
			_ = round.Wait()
			select {
			case <-stop:
				return
			case rounds <- struct{}{}:
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	<-rounds // what is not answered counts if it was there before
	responses := observed(t, l, 3*time.Second)
	l.expectCommands(t, wrong)
	close(stop)
	<-done
	type counts struct{ refused, unanswered bool }
	got := map[netip.AddrPort]map[model.Protocol]counts{}
	for _, r := range responses {
		if got[r.Endpoint] == nil {
			got[r.Endpoint] = map[model.Protocol]counts{}
		}
		got[r.Endpoint][r.Destination.Protocol] = counts{r.Refused > 0, r.Unanswered > 0}
	}
	t.Logf("%+v", responses)
	for _, w := range daemon.Transports() {
		for _, test := range []struct {
			name string
			at   netip.AddrPort
			want counts
		}{
			{"served", l.Pods[0].AddrPort(w.Family, daemon.TargetPort), counts{}},
			{"wrong", l.Pods[0].AddrPort(w.Family, daemon.TargetPort+9), counts{refused: w.Protocol != model.UDP, unanswered: w.Protocol == model.UDP}},
			{"silent", l.RemotePods[0].AddrPort(w.Family, daemon.TargetPort), counts{unanswered: true}},
		} {
			if got := got[test.at][w.Protocol]; got != test.want {
				t.Errorf("%s over %s: %+v, want %+v", test.name, w, got, test.want)
			}
		}
	}
}

// TestBusyEndpointsDoNotSeemToRefuse opens and closes connections as fast as possible while
// it observes: none is counted without its entry.
func TestBusyEndpointsDoNotSeemToRefuse(t *testing.T) {
	l := newScene(t, 2, 1)
	web := daemon.Service{Name: "web", Number: 1, Endpoints: []*lab.Host{l.Pods[0].Host, l.RemotePods[0].Host}}
	l.folder.Put("services", web)
	daemon.Start(t, l.Node, l.folder)
	var bursts errgroup.Group
	for _, family := range model.Families {
		for _, p := range []model.Protocol{model.TCP, model.UDP} {
			bursts.Go(func() error {
				to := web.ClusterAddrPort(family)
				got, err := l.Pods[1].Burst(lab.Burst{Protocol: p, To: to, Count: 5000, Workers: 4, Timeout: 10 * time.Second})
				t.Logf("%s over %s: %s", p, family, got)
				return err
			})
		}
	}
	for range 3 {
		if got := observed(t, l, time.Second); len(got) > 0 {
			t.Errorf("observed %+v", got)
		}
	}
	if err := bursts.Wait(); err != nil {
		t.Error(err)
	}
}

// expectCommands checks what commands say about these Services.
func (s *scene) expectCommands(t *testing.T, wrong daemon.Service) {
	t.Helper()
	out := s.run("problems", "-o", "json")
	var list findings.List
	if err := json.Unmarshal([]byte(out.Stdout), &list); err != nil || out.ExitCode != 1 {
		t.Fatalf("exit code %d, %v: %s", out.ExitCode, err, out.Stderr)
	}
	got := map[string]string{}
	for _, f := range list.Findings {
		slices.Sort(f.Ports)
		got[fmt.Sprint(f.Name, f.Ports, f.Families)] = fmt.Sprintf("%s %s (%s)", f.Severity, f.Reason, f.Field)
		if len(f.Endpoints) != 2 {
			t.Errorf("endpoints of %+v", f)
		}
	}
	want := map[string]string{
		"wrong[p-sctp/SCTP p-tcp/TCP] [IPv4 IPv6]":  "Problem Refuses (spec.ports[].targetPort)",
		"wrong[p-udp/UDP] [IPv4 IPv6]":              "Notice Silent (spec.ports[].targetPort)",
		"silent[sctp-0/SCTP tcp-0/TCP] [IPv4 IPv6]": "Problem Silent ()",
		"silent[udp-0/UDP] [IPv4 IPv6]":             "Notice Silent (spec.ports[].targetPort)",
	}
	if !maps.Equal(got, want) {
		t.Errorf("problems has %q, want %q\n%s", got, want, out.Stdout)
	}
	for _, w := range daemon.Transports() {
		to := fmt.Sprintf("%s/%s", wrong.ClusterAddrPort(w.Family), w.Protocol)
		out := s.run("explain", "--from", s.Pods[1].Addr(w.Family).String(), "--to", to)
		want, code := "the only endpoint answers with a reset", 1
		if w.Protocol == model.UDP { // where silence may be right
			want, code = "the only endpoint does not answer", 2
		}
		if out.ExitCode != code || !strings.Contains(out.Stdout, want) || !strings.Contains(out.Stdout, "(spec.ports[].targetPort)") {
			t.Errorf("explain over %s: %s%s", w, out.Stdout, out.Stderr)
		}
	}
	table := s.prints("get", "endpoints", "wrong", "--observe", "2s")
	if strings.Count(table, "(refuses)") != 4 || strings.Count(table, "(silent)") != 2 {
		t.Errorf("get endpoints: %s", table)
	}
}

// silence makes a host drop everything.
func silence(t *testing.T, h *lab.Host) {
	t.Helper()
	const rules = "add table inet silence; add chain inet silence input { type filter hook prerouting priority -400; policy drop; }; " +
		"add rule inet silence input icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept"
	labtest.Run(t, h, rules, "nft", "-f", "-")
}

func observed(t *testing.T, s *scene, d time.Duration) []build.Response {
	t.Helper()
	list, err := build.Observe(t.Context(), conntrack.New(conntrack.Config{NetNS: s.Node.FD()}), labtest.Kernel(t, s.Node.Host), d)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
