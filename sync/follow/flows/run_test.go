package flows_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync/follow/flows"
)

func TestNoQueryUnlessFlowsCanBeStale(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		r.full()
		r.queried("without Services")
		r.full("vip:80/tcp ep1:80", "vip:80/sctp ep1:80")
		r.queried("without UDP")
		r.change("vip:53/udp ep1:53")
		r.queried("with a new frontend", "udp 53")
		r.change("vip:53/udp ep1:53 ep2:53")
		r.change("vip:53/udp ep1:53 ep2:53 ep3:53")
		r.queried("with more endpoints", "udp 53", "udp 53")
		r.change("vip:80/tcp", "vip:80/sctp")
		r.change("-vip:80/tcp", "-vip:80/sctp", "-other:53/udp")
		r.queried("with other protocols, and an unknown frontend")
		r.change("vip:53/udp ep1:53 ep3:53")
		r.queried("with fewer endpoints", "udp 53")
		r.change("vip:53/udp")
		r.queried("without endpoints", "udp 53")
		r.change("vip:53/udp ep1:53")
		r.queried("with endpoints again", "udp 53")
	})
}

func TestFollowDoesNotBlockAndChangesAreBatched(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		r.full("vip:53/udp ep1:53")
		r.queried("at the start", "udp")
		hold := make(chan struct{})
		r.kernel.listing = func(conntrack.Query) error { <-hold; return nil }
		r.change("vip:53/udp ep2:53")
		for i := range 100 {
			r.Follow(r.changed("vip:53/udp ep3:53", fmt.Sprintf("other:%d/udp ep1:53", 1000+i%5)))
		}
		r.queried("while the kernel works", "udp 53")
		close(hold)
		pass(time.Minute)
		r.queried("then", "udp")
		pass(time.Hour)
		r.queried("an hour later")
	})
}

func TestFlowsThatBecameValidStay(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		r.full("vip:53/udp ep1:53", "other:53/udp ep1:53")
		r.kernel.entries = r.entries("vip:53/udp ep1:53", "vip:53/udp ep3:53", "other:53/udp ep1:53")
		r.kernel.listing = func(conntrack.Query) error {
			r.kernel.listing = nil
			r.Follow(r.changed("vip:53/udp ep3:53", "other:53/udp ep1:53"))
			return nil
		}
		r.change("vip:53/udp ep2:53", "-other:53/udp")
		pass(time.Minute)
		r.expect("in the end", "vip:53/udp ep3:53", "other:53/udp ep1:53")
	})
}

func TestAnswersOnTheirWayArrive(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		r.full("vip:53/udp ep1:53", "other:53/udp ep1:53")
		r.kernel.entries = r.entries("vip:53/udp ep1:53", "other:53/udp ep1:53")
		r.Follow(r.changed("vip:53/udp ep2:53"))
		pass(990 * time.Millisecond)
		r.expect("before the time for answers is over", "vip:53/udp ep1:53", "other:53/udp ep1:53")
		pass(20 * time.Millisecond)
		r.expect("after it", "other:53/udp ep1:53")
		pass(400 * time.Millisecond)
		r.Follow(r.changed("other:53/udp ep2:53"))
		pass(990 * time.Millisecond)
		r.expect("before the time of the next change is over", "other:53/udp ep1:53")
		pass(settled)
		r.expect("in the end")
	})
}

// TestCommitDuringAReadHasItsOwnTime has an endpoint removed while flows of another family are
// read.
func TestCommitDuringAReadHasItsOwnTime(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		other := r.other()
		r.follow(r.both("ep1:53", true))
		lines := []string{"vip:53/udp ep1:53", "vip:53/udp ep2:53"}
		r.kernel.entries = append(r.entries(lines...), other.entries(lines...)...)
		r.kernel.listing = func(conntrack.Query) error {
			r.kernel.listing = nil
			r.Follow(r.both("ep3:53", false))
			return nil
		}
		r.Follow(r.both("ep2:53", false))
		pass(1010 * time.Millisecond)
		if n := len(r.kernel.held()); n != 2 {
			r.t.Errorf("%d flows remain of two, whose endpoint just went", n)
		}
		pass(settled)
		r.expect("in the end")
	})
}

func TestPauseIsNineteenTimesTheWork(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		r.full("vip:53/udp ep1:53")
		r.kernel.takeQueries()
		r.kernel.listing = func(conntrack.Query) error { <-time.After(400 * time.Millisecond); return nil }
		for i := range 19 { // a change every half a second
			r.Follow(r.changed(fmt.Sprintf("vip:53/udp ep%d:53", 2+i%2)))
			pass(time.Second / 2)
		}
		r.queried("in nine and a half seconds", "udp 53", "udp 53")
	})
}

func TestFailuresAreRetriedAndLoggedOnce(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		r.full("vip:53/udp ep1:53", "other:53/udp ep1:53", "lb:53/udp ep1:53")
		r.kernel.entries = r.entries("vip:53/udp ep1:53", "other:53/udp ep1:53", "lb:53/udp ep1:53")
		r.queried("at the start", "udp")
		r.kernel.fail(errors.New("no buffer space available"), nil)
		r.Follow(r.changed("vip:53/udp ep2:53"))
		pass(1010 * time.Millisecond)
		r.queried("after the time for answers", "udp 53")
		r.Follow(r.changed("-other:53/udp")) // waits for the next attempt
		pass(980 * time.Millisecond)
		r.queried("before the first delay is over")
		pass(130 * time.Millisecond)
		r.queried("after the first delay", "udp 53")
		pass(10 * time.Minute)
		if n := len(r.kernel.takeQueries()); n < 20 || n > 40 {
			r.t.Errorf("%d queries in 10 minutes, want about every 30 seconds", n)
		}
		if n := strings.Count(r.log.String(), "no buffer space available"); n != 1 {
			r.t.Errorf("logged %d times, want once:\n%s", n, r.log.String())
		}
		r.kernel.fail(nil, nil)
		pass(time.Minute)
		r.queried("when it works", "udp 53")
		r.expect("when it works", "lb:53/udp ep1:53")
		if !strings.Contains(r.log.String(), "deleted again") {
			r.t.Errorf("recovery not logged:\n%s", r.log.String())
		}
		r.kernel.fail(nil, errors.New("operation not permitted"))
		r.change("lb:53/udp ep2:53")
		if n := len(r.kernel.takeQueries()); n < 2 || !strings.Contains(r.log.String(), "operation not permitted") {
			r.t.Errorf("%d queries after another failure, want the first delay again:\n%s", n, r.log.String())
		}
		r.kernel.fail(nil, nil)
		pass(time.Minute)
		r.expect("when deleting works, too")
	})
}

func TestFamiliesFailIndependently(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		other := r.other()
		r.follow(r.both("ep1:53", true))
		r.kernel.entries = append(r.entries("vip:53/udp ep1:53"), other.entries("vip:53/udp ep1:53")...)
		r.kernel.listing = func(q conntrack.Query) error {
			if q.Family != r.family {
				return errors.New("out of memory")
			}
			return nil
		}
		r.follow(r.both("ep2:53", false))
		if have, want := describe(r.kernel.held()), describe(other.entries("vip:53/udp ep1:53")); !slices.Equal(have, want) {
			r.t.Errorf("left %q, want %q", have, want)
		}
		r.kernel.fail(nil, nil)
		r.kernel.takeQueries()
		pass(time.Minute)
		r.expect("in the end")
		r.queried("of the other family only", "udp 53")
	})
}

func TestDeletedFlowsAreReportedAfterSuccess(t *testing.T) {
	run(t, flows.Config{}, func(r *rig) {
		r.full("vip:53/udp ep1:53")
		r.kernel.entries = r.entries("vip:53/udp ep1:53", "vip:53/udp vip:53")
		r.kernel.listing = func(conntrack.Query) error { <-time.After(time.Millisecond); return nil }
		r.change("vip:53/udp ep2:53")
		pass(time.Second)
		r.kernel.listing = func(conntrack.Query) error { return errors.New("interrupted") }
		r.change("vip:53/udp ep3:53")
		want := []string{r.family.String() + " 0 0s", r.family.String() + " 2 1ms"}
		if !slices.Equal(r.reconciled, want) {
			r.t.Errorf("reported %q, want %q", r.reconciled, want)
		}
	})
}

// settled is longer than the time for replies before and after an attempt.
const settled = 2200 * time.Millisecond

// pass lets time pass in the bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
