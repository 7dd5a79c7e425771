package main

import (
	"context"
	stdsync "sync"
	"time"

	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/daemon"
)

// silence is how long to wait for an answer that must not come.
const silence = 200 * time.Millisecond

// ask has a client connect over every way several times a second, until the scene ends,
// after a first round.
func (s *scene) ask(from *traffic.Client, to traffic.Target) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var asking stdsync.WaitGroup
	s.Cleanup(func() {
		cancel()
		asking.Wait()
	})
	first := make(chan struct{})
	asking.Go(func() {
		tick := time.NewTicker(silence)
		defer tick.Stop()
		for round := 0; ctx.Err() == nil; round++ {
			for _, w := range daemon.Transports() {
				_, _ = from.AskWithin(w, to.At(w.Family), silence) // whatever comes
			}
			if round == 0 {
				close(first)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	<-first
}
