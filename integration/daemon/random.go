package daemon

import (
	"math/rand/v2"
	"time"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Random generates Services with random ports, kinds, endpoints and policies.
type Random struct {
	*rand.Rand
	Servers []*lab.Host
	// Ports and Times are the most ports and [Service.Times].
	Ports, Times int
	// One of each of these is chosen.
	Schedulers []string
	Affinities []time.Duration
	Sources    [][]string
	// Weights are those of endpoints, of which half of the Services have some; nil means
	// that none have.
	Weights []int
	// Holds is like Affinities. Half of the Services have Priorities of endpoints, if there are any.
	Holds      []time.Duration
	Priorities []int
}

// Service returns another Service.
func (r Random) Service(name string, number int) Service {
	s := Service{
		Name: name, Number: number,
		Ports: 1 + r.IntN(r.Ports), Times: 1 + r.IntN(r.Times),
		Scheduler: r.Schedulers[r.IntN(len(r.Schedulers))],
		Affinity:  r.Affinities[r.IntN(len(r.Affinities))],
	}
	for _, k := range Kinds {
		if r.IntN(2) == 0 {
			s.Kinds = append(s.Kinds, k)
		}
	}
	for _, i := range r.Perm(len(r.Servers))[:r.IntN(len(r.Servers)+1)] {
		s.Endpoints = append(s.Endpoints, r.Servers[i])
	}
	if r.Weights != nil && r.IntN(2) == 0 {
		for range s.Endpoints {
			s.Weights = append(s.Weights, r.Weights[r.IntN(len(r.Weights))])
		}
	}
	if r.Holds != nil {
		s.Hold = r.Holds[r.IntN(len(r.Holds))]
	}
	if r.Priorities != nil && r.IntN(2) == 0 {
		for range s.Endpoints {
			s.Priorities = append(s.Priorities, r.Priorities[r.IntN(len(r.Priorities))])
		}
	}
	s.LocalInside = r.IntN(3) == 0
	s.LocalOutside = len(s.Kinds) > 0 && r.IntN(2) == 0
	if s.Has(model.KindLoadBalancerIP) && r.IntN(2) == 0 {
		s.Sources = r.Sources[r.IntN(len(r.Sources))]
	}
	return s
}
