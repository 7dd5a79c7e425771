package throttle_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/sync/throttle"
)

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used time.Duration
		processor := func() time.Duration { return used }
		for _, c := range []struct {
			name      string
			throttle  throttle.Throttle
			took, cpu time.Duration
			want      time.Duration
		}{
			{"zero", throttle.Throttle{}, time.Second, 0, 0},
			{"a tenth", throttle.Throttle{Factor: 9}, time.Second, 0, 9 * time.Second},
			{"at least", throttle.Throttle{Factor: 9, Min: time.Second}, time.Millisecond, 0, time.Second},
			{"at most", throttle.Throttle{Factor: 9, Max: 2 * time.Second}, time.Second, 0, 2 * time.Second},
			{"processor time", throttle.Throttle{Factor: 4, ProcessorTime: processor}, time.Second, time.Millisecond, 4 * time.Millisecond},
		} {
			if got := c.throttle.Remaining(); got != 0 {
				t.Errorf("%s: %s before any work", c.name, got)
			}
			got := c.throttle.Do(func() { used += c.cpu; <-time.After(c.took) })
			if remaining := c.throttle.Remaining(); got != c.want || remaining != c.want {
				t.Errorf("%s: pause %s, %s remain, want %s", c.name, got, remaining, c.want)
			}
			<-time.After(c.want / 2)
			if got := c.throttle.Remaining(); got != c.want-c.want/2 {
				t.Errorf("%s: %s remain after half of it", c.name, got)
			}
			<-time.After(c.want)
			if got := c.throttle.Remaining(); got != 0 {
				t.Errorf("%s: %s remain after it", c.name, got)
			}
		}
	})
}

// TestBudgetOfAllWorks has all works of a node at their worst, each as often as its pause allows: five
// take seconds, and one a millisecond, which is as often done as without the others.
func TestBudgetOfAllWorks(t *testing.T) {
	const period = time.Hour
	synctest.Test(t, func(t *testing.T) {
		var budget throttle.Budget
		var mu sync.Mutex
		busy := map[string]time.Duration{}
		times := map[string]int{}
		end := time.Now().Add(period)
		for _, work := range []struct {
			name        string
			factor      int
			least, took time.Duration
		}{
			{"tables", 19, 0, time.Second},
			{"flows", 19, time.Second, 200 * time.Millisecond},
			{"counters", 19, time.Second, 3 * time.Second},
			{"least connections", 70, time.Second, 400 * time.Millisecond},
			{"connections", 20, 5 * time.Second, 400 * time.Millisecond},
			{"affinity", 70, 0, 5 * time.Second},
			{"held", 20, 250 * time.Millisecond, time.Millisecond},
		} {
			go func() {
				pace := budget.Throttle(work.least)
				pace.Factor = work.factor
				for time.Now().Before(end) {
					<-time.After(work.took)
					mu.Lock()
					busy[work.name] += work.took
					times[work.name]++
					mu.Unlock()
					<-time.After(pace.Pause(work.took))
				}
			}()
		}
		<-time.After(2 * period)
		sum := time.Duration(0)
		for name, took := range busy {
			if sum += took; took < period/200 && name != "held" {
				t.Errorf("%s took only %s of an hour", name, took)
			}
		}
		// The first pauses, before all works are known, may be too short.
		if sum > period*21/20/throttle.BudgetParts {
			t.Errorf("all took %s of an hour: %v", sum, busy)
		}
		if want := int(period / (251 * time.Millisecond)); times["held"] < want {
			t.Errorf("a small work was done %d times, want %d", times["held"], want)
		}
	})
}
