package cluster

import "time"

// A Position is how far a [Source] has followed the objects of one kind.
type Position struct {
	Kind string
	// ResourceVersion is the newest one that the API server has sent, with an object, a list
	// or a bookmark; empty before the first list.
	ResourceVersion string
	// FailingSince is when requests began to fail with Err; zero if they do not.
	FailingSince time.Time
	Err          error
}

// Positions returns the position of each kind; nil before Run. Reflectors keep the resource
// versions anyway, so that this costs nothing for each change.
func (s *Source) Positions() []Position {
	w := s.running.Load()
	if w == nil {
		return nil
	}
	out := make([]Position, len(w.reflectors))
	for i, r := range w.reflectors {
		out[i] = Position{Kind: r.Name(), ResourceVersion: r.LastSyncResourceVersion()}
		out[i].FailingSince, out[i].Err = w.outages.failure(r.Name())
	}
	return out
}
