package passivehealth

import (
	"slices"
	"testing"

	"kube-vmap/integration/daemon"
)

// TestStandbyServesWhilePrimaryIsUnresponsive has one endpoint of the best priority, and others that
// stand by in place of it until it replies again.
func TestStandbyServesWhilePrimaryIsUnresponsive(t *testing.T) {
	s := newScene(t, "--passive-health-checks=avoid")
	primary := s.servers[2]
	stop := s.traffic()
	s.verified()
	s.service.Priorities = []int{1, 1, 0}
	before := s.proxy.CountMessages("applied")
	s.folder.Put("web", s.service)
	s.proxy.AwaitMessages(before+1, "applied")
	served := func(by ...string) {
		t.Helper()
		for i, w := range daemon.Transports() {
			for range rounds {
				got, err := s.ask(w, i)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Contains(by, got) {
					t.Errorf("%s: answered by %q, want one of %q", w, got, by)
				}
			}
		}
	}
	served(primary.Name)
	s.kill(primary)
	s.awaitAll(messageUnresponsive, primary)
	stop()
	served(s.servers[0].Name, s.servers[1].Name)
	s.nft(primary, "delete table inet dead")
	s.awaitAll(messageResponsive, primary)
	s.awaitEach(primary)
	served(primary.Name)
}
