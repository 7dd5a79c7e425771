package proxy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
)

// everyone returns one client of each kind: a pod, the node, and the host outside.
func everyone(l *lab.Lab) []*lab.Host { return []*lab.Host{l.Pods[2].Host, l.Node.Host, l.Outside} }

// enough questions make it practically impossible that one of a few endpoints is never
// picked. few are asked in any case.
const (
	enough = 200
	few    = 4
)

// only asks over each transport and from all clients until all of these hosts have answered,
// and checks that no other host did.
func only(t *testing.T, l *lab.Lab, s daemon.Service, by ...string) {
	t.Helper()
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		to := s.ClusterAddrPort(w.Family)
		for _, from := range everyone(l) {
			missing := slices.Clone(by)
			for n := 0; n < enough && (len(missing) > 0 || n < few); n++ {
				a, err := from.AskFresh(w.Protocol, netip.Addr{}, to, answer)
				if err != nil || a.Outcome != lab.Answered || !slices.Contains(by, a.By) {
					t.Fatalf("%s asks %s: %s, %v, want an answer by %s", from, to, a, err, strings.Join(by, " or "))
				}
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == a.By })
			}
			if len(missing) > 0 {
				t.Errorf("%s asks %s %d times: no answer by %s", from, to, enough, strings.Join(missing, " and "))
			}
		}
	})
}
