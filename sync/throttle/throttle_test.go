package throttle_test

import (
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
