package top

import (
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
)

// key names a Service, or one of its endpoints by its address.
type key struct{ namespace, name, endpoint string }

type item struct {
	nodestatus.Traffic

	service  *nodestatus.Service
	endpoint *nodestatus.Endpoint // nil for a Service
}

// itemsOf returns the Services of a document, or their endpoints, over all ports.
func itemsOf(d *nodestatus.Document, endpoints bool) map[key]*item {
	out := map[key]*item{}
	add := func(k key, s *nodestatus.Service, e *nodestatus.Endpoint, t nodestatus.Traffic) {
		if out[k] == nil {
			out[k] = &item{service: s, endpoint: e}
		}
		out[k].Add(&t)
	}
	for i := range d.Services {
		s := &d.Services[i]
		if !endpoints {
			add(key{s.Namespace, s.Name, ""}, s, nil, s.Traffic())
			continue
		}
		for j := range s.Ports {
			for k := range s.Ports[j].Endpoints {
				e := &s.Ports[j].Endpoints[k]
				at := key{s.Namespace, s.Name, e.Address}
				if add(at, s, e, e.Traffic); e.Used() { // at one of its ports
					out[at].endpoint = e
				}
			}
		}
	}
	return out
}

// readings are the last readings of nodes, by name. A node that misses a query keeps its own.
type readings map[string]reading

type reading struct {
	at     time.Time
	counts map[key]uint64
	rates  map[key]float64 // per second; of items that were counted before
}

// rates returns the rates of the items of a document, and keeps its counts. If they are
// the last document's, so are the rates. Of a count that decreased, a part has begun again
// from zero: the item has no rate.
func (r readings) rates(d *nodestatus.Document, items map[key]*item) map[key]float64 {
	before := r[d.Node]
	switch {
	case !d.Counted:
		delete(r, d.Node)
		return nil
	case before.at.Equal(d.CountedAt):
		return before.rates
	}
	now := reading{at: d.CountedAt, counts: map[key]uint64{}, rates: map[key]float64{}}
	seconds := now.at.Sub(before.at).Seconds()
	for k, i := range items {
		now.counts[k] = i.Connections
		if last, known := before.counts[k]; known && seconds > 0 && i.Connections >= last {
			now.rates[k] = float64(i.Connections-last) / seconds
		}
	}
	r[d.Node] = now
	return now.rates
}
