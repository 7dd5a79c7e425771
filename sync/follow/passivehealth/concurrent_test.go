package passivehealth

import (
	"slices"
	"testing"
	"time"

	"kube-vmap/model"
)

// TestConcurrentUse reads reports and totals while endpoints become unresponsive and Services change.
func TestConcurrentUse(t *testing.T) {
	for _, f := range model.Families {
		run(t, f, model.TCP, func(w *world) {
			s := w.serve("default", "web", w.protocol, 3)
			w.use("l", s, 100*time.Millisecond)
			w.pass(10 * time.Second)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 100 {
					<-time.After(100 * time.Millisecond)
					if _, err := w.tracker.Report(w.t.Context()); err != nil {
						t.Error(err)
					}
					w.tracker.Totals()
					w.tracker.InUse()
					w.tracker.Late()
				}
			}()
			w.pods[s.endpoints[1].addr.Addr()].dead = true
			w.until(10*time.Second, func() bool { return slices.Contains(w.received[s.key], s.endpoints[1].addr) })
			if n := len(w.received[s.key]); n != 1 {
				t.Errorf("%d endpoints are unresponsive", n)
			}
			s.endpoints = s.endpoints[:2]
			w.commit(s)
			w.pass(10 * time.Second)
			w.mu.Unlock()
			<-done
			w.mu.Lock()
		})
	}
}
