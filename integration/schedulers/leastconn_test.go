package schedulers

import (
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

// maxUneven is how many times the mean an endpoint may have after a rollout with least
// connections. Of SCTP the lab holds open a quarter only, among which chance weighs more:
// one connection is 6 % of the mean.
var maxUneven = map[model.Protocol]float64{model.TCP: 1.15, model.UDP: 1.15, model.SCTP: 1.35}

// TestLeastConnectionsEvensOutARollout runs rollouts of every transport with lc, and of TCP
// with random. They have half of the connections of [TestRolloutComparedWithIPVS] in less
// than half of the time, and so fewer of the periods in which lc acts. The gate has the
// rollouts that sync/leastconn simulates.
func TestLeastConnectionsEvensOutARollout(t *testing.T) {
	if testing.Short() {
		t.Skip("of the long suite")
	}
	for _, w := range daemon.Transports() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			uneven := func(scheduler string) float64 {
				r := newProxyRollout(t, w.Family, scheduler)
				r.protocol, r.connections, r.over = w.Protocol, 1000, 25*time.Second
				if w.Protocol == model.SCTP {
					r.connections /= 4
				}
				return r.run(t)
			}
			byShares, most := uneven("lc"), maxUneven[w.Protocol]
			t.Logf("max/mean with lc %.3f", byShares)
			if byShares > most {
				t.Errorf("max/mean with lc %.3f, want at most %.2f", byShares, most)
			}
			if w.Protocol != model.TCP {
				return
			}
			if atRandom := uneven("random"); atRandom < byShares {
				t.Errorf("max/mean with random %.3f, less than %.3f with lc", atRandom, byShares)
			}
		})
	}
}
