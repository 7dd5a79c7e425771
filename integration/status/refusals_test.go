package status

import (
	"net/netip"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/status/observe"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/conntrack"
)

// TestRefusalsAreThoseOfEndpoints sends packets that an endpoint answers with a reset, an
// abort or "port unreachable", or not at all, next to ones that are served, and observes.
func TestRefusalsAreThoseOfEndpoints(t *testing.T) {
	l := newLab(t)
	f := daemon.NewFolder(t, l)
	served := daemon.Service{Name: "served", Number: 1, Endpoints: []*lab.Host{l.Pods[0].Host}}
	wrong := daemon.Service{Name: "wrong", Number: 2, ServicePorts: daemon.EveryProtocol("p-", daemon.Port, daemon.TargetPort+9, 0), EndpointSpec: "pod-1"}
	silent := daemon.Service{Name: "silent", Number: 3, Endpoints: []*lab.Host{l.RemotePods[0].Host}}
	f.Put("services", served, wrong, silent)
	daemon.Start(t, l.Node, f)
	silence(t, l.RemotePods[0].Host)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			for _, w := range daemon.Transports() {
				for _, s := range []daemon.Service{served, wrong, silent} {
					_, _ = l.Pods[1].AskFresh(w.Protocol, netip.Addr{}, s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0), 50*time.Millisecond)
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	time.Sleep(2 * time.Second)
	responses := observed(t, l.Node.Host, 3*time.Second)
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

// silence makes a host drop everything.
func silence(t *testing.T, h *lab.Host) {
	t.Helper()
	const rules = "add table inet silence; add chain inet silence input { type filter hook prerouting priority -400; policy drop; }; " +
		"add rule inet silence input icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept"
	if out, err := h.Command(t.Context(), "nft", rules).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// observed observes a host's network namespace.
func observed(t *testing.T, h *lab.Host, d time.Duration) []observe.Response {
	t.Helper()
	k, err := kernel.Open(kernel.Config{NetNS: h.FD()})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	list, err := observe.Responses(t.Context(), conntrack.New(conntrack.Config{NetNS: h.FD()}), k, d)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
