package model

// Excess is a Service that is not served because it weighs more than
// [Options].Most: what its slices offer, each endpoint counted for each of their
// ports. A cluster of honest Services is far from it; one author could take the
// memory of every node.
type Excess struct {
	Service ServiceName
	Weight  int // zero if it is served again
}

// StickyWeight is how many endpoints one counts for whose clients are remembered.
const StickyWeight = 100

// weight is how much the Service weighs.
func (e *entry) weight() int {
	n := 0
	for i := range e.slices {
		n += len(e.slices[i].Ports) * len(e.slices[i].Endpoints)
	}
	if e.service.Affinity > 0 {
		n *= StickyWeight
	}
	return n
}

// weigh reports whether the Service may be served, and notes if that is news.
func (m *ServiceMap) weigh(e *entry) bool {
	weight := 0
	if e.service != nil && m.options.Most > 0 {
		weight = e.weight()
	}
	excess := weight > m.options.Most
	if excess != e.excess {
		e.excess = excess
		if !excess {
			weight = 0
		}
		m.excesses = append(m.excesses, Excess{e.name, weight})
	}
	return e.service != nil && !excess
}
