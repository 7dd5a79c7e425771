package leastconn

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// A quotaTest has pools whose shares must change at every observation.
type quotaTest struct {
	*testing.T
	pools
	quota
	way
	flipped bool
	counts  [2]map[endpoint]count // taken in turn
}

func everyQuota(t *testing.T, test func(*quotaTest)) {
	for f, p := range [...]model.Protocol{model.IPv4: model.UDP, model.IPv6: model.TCP} { // the others are the same, and slow
		t.Run(model.Families[f].String(), func(t *testing.T) {
			test(&quotaTest{T: t, pools: pools{}, way: way{model.Families[f], p}, counts: [2]map[endpoint]count{{}, {}}})
		})
	}
}

// add adds pools of a namespace, each of so many endpoints.
func (q *quotaTest) add(namespace string, pools, endpoints int) {
	for range pools {
		n := len(q.pools)
		var numbers []int
		for i := range endpoints {
			numbers = append(numbers, n*256+i)
			q.counts[i%2][endpoint{q.p, q.way.endpoint(n*256 + i)}] = count{active: 100}
		}
		f := q.frontend(n, numbers...)
		f.Service.Namespace = namespace
		q.pools.apply(sync.Committed{Set: []model.Frontend{f}})
	}
}

// observe returns how many pools of each namespace are sent after one observation.
func (q *quotaTest) observe() map[string]int {
	q.flipped = !q.flipped
	counts := q.counts[0]
	if q.flipped {
		counts = q.counts[1]
	}
	sent, slots := map[string]int{}, 0
	for _, o := range q.quota.send(q.pools.steer(counts, time.Second, time.Second)) {
		s := o.(model.PoolShares)
		sent[q.pools[s.Key].namespace]++
		slots += q.pools[s.Key].cluster.cost(nil)
	}
	if slots > maxSlotsAtOnce {
		q.Errorf("%d slots in one transaction", slots)
	}
	return sent
}

func TestFewPoolsAreNotDelayedByManyOfAnotherNamespace(t *testing.T) {
	everyQuota(t, func(q *quotaTest) {
		q.add("many", 20_000, 2)
		q.add("few", 10, 4)
		for i := range 6 {
			// 10 * 16 of the slots; all others are for the namespace that needs them.
			if sent := q.observe(); sent["few"] != 10 || sent["many"] != (maxSlotsAtOnce-10*16)/8 {
				q.Fatalf("observation %d: sent %v", i, sent)
			}
		}
	})
}

// TestFewPoolsAreNotDelayedByLargeOnes has more namespaces with large pools than fit in a
// transaction with one pool each.
func TestFewPoolsAreNotDelayedByLargeOnes(t *testing.T) {
	everyQuota(t, func(q *quotaTest) {
		for i := range 20 {
			q.add(fmt.Sprint("large", i), 3, model.MaxSlots)
		}
		q.add("few", 3, 4)
		turns := map[string]int{}
		for i := range 20 {
			sent := q.observe()
			if sent["few"] != 3 {
				q.Fatalf("observation %d: sent %v", i, sent)
			}
			for namespace, n := range sent {
				turns[namespace] += n
			}
		}
		for i := range 20 { // 7 of them fit alongside the few
			if n := turns[fmt.Sprint("large", i)]; n < 20*7/20 {
				q.Errorf("namespace %d had %d turns in 20 observations", i, n)
			}
		}
	})
}

func TestEveryOfManyNamespacesHasItsTurn(t *testing.T) {
	everyQuota(t, func(q *quotaTest) {
		for i := range 1000 {
			q.add(fmt.Sprint("small", i), 5, 2)
		}
		q.add("one", 1, 100)
		turns := map[string]int{}
		for range 1000*8/(maxSlotsAtOnce-model.MaxSlots) + 1 {
			for namespace, n := range q.observe() {
				turns[namespace] += n
			}
		}
		if len(turns) != 1001 {
			q.Errorf("only %d of 1,001 namespaces had a turn", len(turns))
		}
	})
}

func TestWorstPoolsGoFirstUnlessOthersWaited(t *testing.T) {
	everyQuota(t, func(q *quotaTest) {
		const pools, fit = 100, maxSlotsAtOnce / (model.SharesPerEndpoint * 10)
		q.add("shop", pools, 10)
		counts, worstFirst := map[endpoint]count{}, []model.Match{}
		for i := range pools {
			counts[endpoint{q.p, q.way.endpoint(256 * i)}] = count{active: 100 + i}
			worstFirst = append(worstFirst, q.frontend(pools-1-i).Match)
		}
		send := func() (sent []model.Match) {
			for _, o := range q.quota.send(q.pools.steer(counts, time.Second, time.Second)) {
				s := o.(model.PoolShares)
				sent = append(sent, s.Key)
			}
			return sent
		}
		if sent := send(); !slices.Equal(sent, worstFirst[:fit]) {
			q.Errorf("sent first: %v", sent)
		}
		for i := pools - fit; i < pools; i++ { // the pools that were first are worse than the others again
			counts[endpoint{q.p, q.way.endpoint(256*i + 1)}] = count{active: 10_000}
		}
		if sent := send(); !slices.Equal(sent[:pools-fit], worstFirst[fit:]) {
			q.Errorf("sent second: %v", sent)
		}
	})
}
