package build

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/nft"
)

// TestRateOfConnectionsIsThatOfNow has counters that are read on request only.
func TestRateOfConnectionsIsThatOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		base, failure := uint64(100), error(nil)
		m := meter{read: cached(func() (Sample, error) { // 5 new connections per second, of two pairs
			n := base + 5*uint64(time.Since(begin).Seconds())
			return Sample{Connections: []nft.ConnectionCount{{Connections: n}, {Connections: 7}}}, failure
		})}
		expect := func(what string, want float64) {
			t.Helper()
			if rate := m.perSecond(t.Context()); want < 0 && rate != nil || want >= 0 && (rate == nil || *rate != want) {
				t.Errorf("%s: %v, want %v", what, rate, want)
			}
		}
		expect("of the first call, over a second", 5)
		if took := time.Since(begin); took != time.Second {
			t.Errorf("the first call takes %s", took)
		}
		expect("from the cache", 5)
		<-time.After(20 * time.Second)
		expect("since the last call", 5)
		<-time.After(time.Hour)
		base += 1000
		expect("after an hour, over a second", 5)
		base = 0
		<-time.After(time.Second)
		expect("of counters that began again", -1)
		failure = errors.New("no buffer space")
		<-time.After(time.Second)
		expect("after an error", -1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if rate := (&meter{read: m.read}).perSecond(ctx); rate != nil {
			t.Errorf("of a canceled request: %v", *rate)
		}
		if rate := (&meter{}).perSecond(ctx); rate != nil {
			t.Errorf("without counters: %v", *rate)
		}
	})
}
