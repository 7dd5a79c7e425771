package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/lab"
)

const (
	kills    = 40
	churning = 60 // Services that change all the time
	// lives is the longest that a proxy lives, counted in times that a start
	// takes: a start, and a few batches.
	lives = 3
	// killing is how long this goes on at most, on a slow machine.
	killing = 20 * time.Second
)

// endpointLists are what the churning Services change between: other endpoints,
// and other numbers of them.
var endpointLists = []string{"pod-1", "pod-1 pod-2", "", "pod-2 remote-1", "pod-1 pod-2 remote-1", "remote-1"}

// TestKilledAtAnyMomentTheRulesAreWhole kills the proxy again and again while
// manifests change, and looks each time at what it left.
func TestKilledAtAnyMomentTheRulesAreWhole(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	w := watch(t, l.Node.Host)
	still := service{name: "still", address: 1, endpoints: "pod-1 pod-2"}
	f.put("still.yaml", still)
	versions, states := churn(f)
	f.write("churn.yaml", versions[0])
	program(t) // building it is no part of a start
	began := time.Now()
	start(t, l.Node, f.dir, podRanges).settled(w, f.dir).kill()
	life := lives * time.Since(began)

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var group errgroup.Group
	group.Go(func() error { return writeInTurn(ctx, f, versions) })
	for _, w := range ways() {
		group.Go(func() error { return keepAsking(ctx, l.Pods[2].Host, w, still) })
	}
	seen := map[int]int{}
	for began, n := time.Now(), 0; n < kills && time.Since(began) < killing; n++ {
		d := start(t, l.Node, f.dir, podRanges)
		<-time.After(time.Duration(random.Int64N(int64(life)))) // any moment is as good as another
		d.kill()
		have := w.read()
		i := slices.IndexFunc(states, func(s state) bool { return s.difference(have) == nil })
		if i < 0 {
			t.Errorf("the tables are no whole state:\n%v", states[0].difference(have))
			break
		}
		seen[i]++
	}
	stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("lives of up to %s; how often each version was found: %v", life, seen)
	if len(seen) < len(states)/2 {
		t.Errorf("only the versions %v were found: the proxy did not come to change anything", seen)
	}
	start(t, l.Node, f.dir, podRanges).settled(w, f.dir)
	only(t, l, still, "pod-1 pod-2")
}

// churn makes the versions of a file of many Services, and the states they lead
// to.
func churn(f *folder) ([][]byte, []state) {
	var texts [][]byte
	var states []state
	for v := range endpointLists {
		var objects []any
		for i := range churning {
			s := service{name: fmt.Sprintf("churn-%d", i), address: 100 + i, endpoints: endpointLists[(v+i)%len(endpointLists)]}
			objects = append(objects, s.objects(f.hosts)...)
		}
		texts = append(texts, text(f.t, objects...))
		f.write("churn.yaml", texts[v])
		states = append(states, stateOf(f.t, f.dir, podRanges))
	}
	return texts, states
}

// writeInTurn writes one version after the other, a few in quick succession,
// then none for a moment: the proxy waits for quiet before it reads.
func writeInTurn(ctx context.Context, f *folder, versions [][]byte) error {
	for n := 0; ; n++ {
		pause := 3 * time.Millisecond
		if n%5 == 4 {
			pause = 75 * time.Millisecond
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		if err := f.replace("churn.yaml", versions[n%len(versions)]); err != nil {
			return err
		}
	}
}

// keepAsking asks all the time, and wants an answer each time.
func keepAsking(ctx context.Context, from *lab.Host, w way, s service) error {
	ticker := time.NewTicker(again)
	defer ticker.Stop()
	for n := 1; ; n++ {
		a, err := from.AskFrom(w.protocol, freshPort(), s.at(w.family), answer)
		if err == nil && a.Outcome != lab.Answered {
			err = fmt.Errorf("%s: question %d: %s", w, n, a)
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
