package build

import (
	"context"
	stdsync "sync"
	"time"
)

// maxInterval is the longest time over which a rate is computed; an older sample says nothing of now.
const maxInterval = time.Minute

// A meter computes new connections per second from the counters: since the last sample, or over a
// second if that is too old.
type meter struct {
	read func() (Sample, error) // nil if connections are not counted

	mu   stdsync.Mutex // guards what follows, also during a measurement
	sum  uint64
	at   time.Time
	rate *float64
}

func (m *meter) perSecond(ctx context.Context) *float64 {
	if m.read == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) > maxInterval {
		m.sample()
		select {
		case <-time.After(minCacheTime):
		case <-ctx.Done():
			return nil
		}
	}
	return m.sample()
}

// sample reads the counters. Some may have begun again from zero: then the rate is not known.
func (m *meter) sample() *float64 {
	s, err := m.read()
	if err != nil {
		m.at = time.Time{}
		return nil
	}
	if s.At.Equal(m.at) {
		return m.rate
	}
	var sum uint64
	for i := range s.Connections {
		sum += s.Connections[i].Connections
	}
	m.rate = nil
	if seconds := s.At.Sub(m.at).Seconds(); !m.at.IsZero() && seconds <= maxInterval.Seconds() && sum >= m.sum {
		m.rate = new(float64(sum-m.sum) / seconds)
	}
	m.sum, m.at = sum, s.At
	return m.rate
}
