package trace

import (
	"context"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/trace"
)

// burst sends many packets.
func (s *scene) burst(w daemon.Transport, count int) {
	s.t.Helper()
	_, err := s.client.Burst(lab.Burst{Protocol: w.Protocol, To: s.packet(w, servicePort).To, Count: count, Workers: 4, Timeout: timeout})
	s.must(err)
}

func TestRateLimitsTracedPackets(t *testing.T) {
	s := newScene(t)
	for _, f := range model.Families {
		w := daemon.Transport{Protocol: model.UDP, Family: f}
		tracer := s.open(trace.Config{Packet: s.packet(w, servicePort), Rate: 2})
		began := time.Now()
		s.burst(w, 40)
		ended(t, s.path(tracer), trace.EndingSent)
		followed := 1
		for ctx, cancel := context.WithTimeout(t.Context(), noAnswer); ; followed++ {
			if _, err := tracer.NextPath(ctx); err != nil {
				cancel()
				break
			}
		}
		if took := time.Since(began); followed > 6+2*int(took.Seconds()) {
			t.Errorf("%s: %d followed in %s", w, followed, took)
		}
		if n, err := tracer.Matched(); n != 40 || err != nil {
			t.Errorf("%s: %d matched, %v", w, n, err)
		}
	}
}

// The messages exceed the buffer of the socket while none is read.
func TestLostMessagesAreReported(t *testing.T) {
	s := newScene(t)
	w := daemon.Transport{Protocol: model.UDP, Family: model.IPv4}
	tracer := s.open(trace.Config{Packet: s.packet(w, servicePort), Rate: 1_000_000})
	s.burst(w, 3000)
	if !s.path(tracer).Lost {
		t.Error("nothing was lost")
	}
}
