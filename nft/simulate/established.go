package simulate

import "slices"

// An Established is an established connection.
type Established struct {
	Flow
	// Left reports whether no new connection would go to its endpoint.
	Left bool
}

// setLeft sets [Established.Left] of all flows.
func (r *Result) setLeft() {
	fresh, unexplored := r.Outcomes, r.Unexplored
	if r.Flow != nil {
		fresh, unexplored = r.IfNew, r.IfNewUnexplored
	}
	if unexplored != (Unexplored{}) || r.Affinity != nil || len(fresh) == 0 {
		return // whether another one would go there is not known
	}
	if r.Flow != nil {
		r.Flow.Left = r.Flow.left(fresh)
	}
	for i := range r.Flows {
		r.Flows[i].Left = r.Flows[i].left(fresh)
	}
}

// left reports whether no new connection would go to the endpoint, by all outcomes of one. A
// filter that stops new connections to any endpoint does not count.
func (f Flow) left(fresh []Outcome) bool {
	reason := fresh[0].Because.Reason
	serves := reason == ReasonNoEndpoint || reason == ReasonNoLocalEndpoint
	for _, o := range fresh {
		if slices.Contains(o.Stopped, f.Endpoint) || slices.ContainsFunc(o.Endpoints, func(e Endpoint) bool { return e.Address == f.Endpoint }) {
			return false
		}
		serves = serves || o.Verdict.Arrives() || o.Verdict == VerdictUnknown
	}
	return serves && !f.Reopens
}
