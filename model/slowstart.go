package model

import "slices"

// FullStep is how many eighths of its weight an endpoint gets that does not start slowly.
const FullStep = 8

// SlowStart has the steps of a pool. Endpoints that join a list while another one stays begin with an
// eighth of their weight, in the same change; in a new pool, all have it. A follower takes steps.
type SlowStart struct {
	Key            Match      // of the pool
	Cluster, Local ListShares // their endpoints and steps
}

// Steps are how many eighths of their weights endpoints get; nil means all. They share a number of
// slots, which changes with the endpoints only: it is in the name of their chain, and so in verdict maps.
type Steps struct {
	Eighths []uint8
	Slots   int
}

func (s *Steps) equal(o *Steps) bool { return s.Slots == o.Slots && equalLists(s.Eighths, o.Eighths) }

func (s SlowStart) target() overlayTarget { return overlayTarget{s.Key, overlaySlowStart} }

func (s SlowStart) apply(frontends []Frontend, _ *Options) Overlay {
	p := frontends[0].Pool
	if p.SlowStart == 0 {
		return nil
	}
	p.ClusterSteps, p.LocalSteps = s.Cluster.stepsIn(p, false), s.Local.stepsIn(p, true)
	p.ClusterShares, p.LocalShares = p.SharesOfWeights(false), p.SharesOfWeights(true)
	return SlowStart{s.Key, p.List(false), p.List(true)}
}

// stepsIn returns the steps of the pool's endpoints. If all are new, none starts slowly: no other one
// could serve in their place.
func (s *ListShares) stepsIn(p *Pool, local bool) Steps {
	now := p.List(local)
	if equalLists(s.Endpoints, now.Endpoints) {
		return s.Steps
	}
	next, starts, stays, old := Steps{}, s.Steps.Eighths != nil, false, 0
	for _, a := range now.Endpoints {
		for old < len(s.Endpoints) && s.Endpoints[old].Compare(a) < 0 {
			old++
		}
		eighths := uint8(FullStep)
		if old == len(s.Endpoints) || s.Endpoints[old] != a {
			eighths, starts = 1, true
		} else if stays = true; s.Steps.Eighths != nil {
			eighths = s.Steps.Eighths[old]
		}
		next.Eighths = append(next.Eighths, eighths)
	}
	if !starts || !stays {
		return Steps{}
	}
	parts := next.parts(p.sharesFor(now.Weights)) // these are exact, if there are not too many
	n := min(sum(parts)/commonDivisor(parts), max(minManySlots, FullStep*len(parts)))
	next.Slots = n * min(max(maxStartSlots/n, 1), maxStartFactor)
	return next
}

// parts returns the eighths of shares that endpoints get.
func (s *Steps) parts(shares []uint16) []int {
	parts := make([]int, len(s.Eighths))
	for i, eighths := range s.Eighths {
		if parts[i] = int(eighths); shares != nil {
			parts[i] *= int(shares[i])
		}
	}
	return parts
}

// More slots make later steps more exact: maxStartFactor times as many, but at most maxStartSlots.
const maxStartFactor, maxStartSlots = 3, 64

// divide divides the slots in proportion to shares and steps. The endpoints that start get, together, as
// near to their part as possible.
func (s *Steps) divide(shares []uint16) []uint16 {
	if len(s.Eighths) < 2 {
		return shares
	}
	parts := s.parts(shares)
	starting, others, n := make([]int, len(parts)), slices.Clone(parts), 0
	for i, eighths := range s.Eighths {
		if eighths < FullStep {
			starting[i], others[i], n = parts[i], 0, n+1
		}
	}
	all := sum(parts)
	slots := min(max((2*s.Slots*sum(starting)+all)/(2*all), n), s.Slots-len(parts)+n)
	out := Apportion(starting, slots)
	for i, share := range Apportion(others, s.Slots-slots) {
		out[i] += share
	}
	return out
}
