package top

import (
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
)

// readings are the last readings of nodes, by name. A node that misses a query keeps its own.
type readings map[string]reading

type reading struct {
	at     time.Time
	counts map[serviceName]uint64
	rates  map[serviceName]float64 // per second; of Services that were counted before
}

type serviceName struct{ namespace, name string }

// rates returns the rates of the Services in a document, and keeps its counts. If they are
// those of the last document, so are the rates. Of a count that decreased, a part has begun again
// from zero: the Service has no rate.
func (r readings) rates(d *nodestatus.Document) map[serviceName]float64 {
	before := r[d.Node]
	switch {
	case !d.Counted:
		delete(r, d.Node)
		return nil
	case before.at.Equal(d.CountedAt):
		return before.rates
	}
	now := reading{at: d.CountedAt, counts: map[serviceName]uint64{}, rates: map[serviceName]float64{}}
	seconds := now.at.Sub(before.at).Seconds()
	for i := range d.Services {
		s := &d.Services[i]
		name, n := serviceName{s.Namespace, s.Name}, s.Traffic().Connections
		now.counts[name] = n
		if last, known := before.counts[name]; known && seconds > 0 && n >= last {
			now.rates[name] = float64(n-last) / seconds
		}
	}
	r[d.Node] = now
	return now.rates
}
