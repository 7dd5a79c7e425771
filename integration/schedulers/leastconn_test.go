package schedulers

import (
	"testing"
	"time"

	"kube-vmap/model"
)

// maxUneven is how many times the mean an endpoint may have after a rollout with least
// connections.
const maxUneven = 1.15

// TestLeastConnectionsEvensOutARollout runs a rollout with lc, and one with random. They
// have half of the connections of [TestRolloutComparedWithIPVS] in less than half of the
// time, and so fewer of the periods in which lc acts.
func TestLeastConnectionsEvensOutARollout(t *testing.T) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			uneven := func(scheduler string) float64 {
				r := newProxyRollout(t, f, scheduler)
				r.connections, r.over = 1000, 25*time.Second
				return r.run(t)
			}
			byShares, atRandom := uneven("lc"), uneven("random")
			t.Logf("max/mean with lc %.3f, with random %.3f", byShares, atRandom)
			if byShares > maxUneven || byShares > atRandom {
				t.Errorf("max/mean with lc %.3f, want at most %.2f, and less than %.3f with random", byShares, maxUneven, atRandom)
			}
		})
	}
}
