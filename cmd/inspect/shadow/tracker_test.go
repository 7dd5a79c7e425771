package shadow

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

var webMatch = model.Match{Family: model.IPv4, Addr: netip.MustParseAddr("10.96.0.1"), Protocol: model.TCP, Port: 80}

// TestDifferencesCountAfterTwoRoundsWithoutChanges follows a difference over rounds.
func TestDifferencesCountAfterTwoRoundsWithoutChanges(t *testing.T) {
	now := time.Unix(1000, 0)
	tr := newTracker(func() time.Time { return now })
	web := Difference{Service: "shop/web", Frontend: webMatch.String(), Kind: KindEndpoints}
	meant := Difference{Service: "shop/web", Frontend: webMatch.String(), Kind: KindShares, Intended: "weights"}
	round := func(want int, list ...Difference) {
		t.Helper()
		unsettled, all := tr.unsettled()
		r := &Report{Differences: slices.Clone(list)}
		tr.confirm(r, unsettled, all)
		if len(r.Differences) != want || want+r.Pending != len(list) {
			t.Errorf("%d confirmed, %d pending, want %d of %d", len(r.Differences), r.Pending, want, len(list))
		}
	}
	round(1, web, meant) // just started: only what is intended
	round(1, web, meant)
	now = now.Add(settled + time.Second)
	round(2, web, meant)
	tr.Follow(sync.Committed{Set: []model.Frontend{{Match: webMatch}}})
	now = now.Add(settled / 2)
	round(0, web) // the Service has just changed
	now = now.Add(settled)
	round(1, web)
	round(0)
	round(0, web) // it is new
	round(1, web)
	tr.Follow(sync.Committed{Gone: []model.Match{webMatch}})
	round(0, web)
}
