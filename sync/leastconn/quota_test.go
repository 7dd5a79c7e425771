package leastconn

import (
	"fmt"
	"net/netip"
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
	f       model.Family
	p       model.Protocol
	flipped bool
	counts  [2]map[endpoint]count // taken in turn
}

func everyQuota(t *testing.T, test func(*quotaTest)) {
	for f, p := range [...]model.Protocol{model.IPv4: model.UDP, model.IPv6: model.TCP} { // the others are the same, and slow
		t.Run(model.Families[f].String(), func(t *testing.T) {
			test(&quotaTest{T: t, pools: pools{}, f: model.Families[f], p: p, counts: [2]map[endpoint]count{{}, {}}})
		})
	}
}

// addr returns address n of the pods or the Services.
func (q *quotaTest) addr(service bool, n int) netip.Addr {
	b := netip.MustParseAddr([...]string{"10.0.0.0", "fd00::"}[q.f]).AsSlice()
	if service {
		b[1] = 96
	}
	b[len(b)-3], b[len(b)-2], b[len(b)-1] = byte(n>>16), byte(n>>8), byte(n)
	a, _ := netip.AddrFromSlice(b)
	return a
}

// add adds pools of a namespace, each of so many endpoints.
func (q *quotaTest) add(namespace string, pools, endpoints int) {
	for range pools {
		n := len(q.pools)
		m := model.Match{Family: q.f, Addr: q.addr(true, n), Protocol: q.p, Port: 80}
		f := model.Frontend{Match: m, Pool: &model.Pool{Key: m, Scheduler: model.SchedulerLeastConnections}}
		f.Service.Namespace = namespace
		for i := range endpoints {
			e := netip.AddrPortFrom(q.addr(false, n*256+i), 8080)
			f.Pool.Cluster = append(f.Pool.Cluster, e)
			q.counts[i%2][endpoint{q.p, e}] = count{active: 100}
		}
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
	for _, s := range q.quota.send(q.pools.steer(counts, time.Second, time.Second)) {
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

// TestFewPoolsAreNotDelayedByLargeOnes has as many namespaces as fill a transaction with one
// pool each, and many more that are as large.
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
		for i := range 20 { // 7 of them fit beside the few
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
