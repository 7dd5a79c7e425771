package top

import (
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
)

// readings are the last readings of nodes, by name. A node that misses a query keeps its own.
type readings map[string]*reading

type reading struct {
	at     time.Time
	counts map[counter]uint64
	rates  map[serviceName]float64 // per second; of Services that were counted before
}

type serviceName struct{ namespace, name string }

// counter is a port of a Service in one IP family.
type counter struct {
	serviceName

	family, protocol, port string
}

// rates returns the rates of the Services in a document, and keeps its counters. If they are
// those of the last document, so are the rates.
func (r readings) rates(d *nodestatus.Document) map[serviceName]float64 {
	before := r[d.Node]
	switch {
	case !d.Counted:
		delete(r, d.Node)
		return nil
	case before != nil && before.at.Equal(d.CountedAt):
		return before.rates
	}
	now := &reading{at: d.CountedAt, counts: map[counter]uint64{}, rates: map[serviceName]float64{}}
	for i := range d.Services {
		now.add(&d.Services[i], before)
	}
	r[d.Node] = now
	return now.rates
}

// add adds the counters and the rate of a Service. A port that was not counted before has no
// rate, since its connections may be old.
func (r *reading) add(s *nodestatus.Service, before *reading) {
	service := serviceName{s.Namespace, s.Name}
	for i := range s.Ports {
		p := &s.Ports[i]
		c := counter{service, p.Family, p.Protocol, p.Name}
		r.counts[c] = p.Connections
		if before == nil || !r.at.After(before.at) {
			continue
		}
		if last, known := before.counts[c]; known {
			r.rates[service] += float64(grown(last, p.Connections)) / r.at.Sub(before.at).Seconds()
		}
	}
}

// grown returns the new connections. A counter that decreased has begun again from zero.
func grown(before, now uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}
