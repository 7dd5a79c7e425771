package counters

import (
	"net/netip"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

func TestFlowIsCountedOnce(t *testing.T) {
	s := newScene(t, 2, 0)
	k := open(t, s.Node)
	web := daemon.Service{Name: "web", Number: 1, Endpoints: s.servers}
	s.folder.Put("web", web)
	daemon.Start(t, s.Node, s.folder)
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		to := web.AddrPort(s.Node, w.Family, model.KindClusterIP, 0)
		flow, err := s.Outside.Flow(w.Protocol, netip.AddrPort{}, to)
		if err != nil {
			t.Fatal(err)
		}
		defer flow.Close()
		for i := range 20 {
			got, err := flow.Ask(answer)
			if err != nil || got.By == "" {
				t.Fatalf("request %d: %s, %v", i, got, err)
			}
			if i == 0 {
				s.ledger.note(w, to, got.By)
			}
		}
	})
	s.ledger.check(t, "after many requests over one connection", k)
}
