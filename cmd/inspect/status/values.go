package status

import (
	"slices"

	"kube-vmap/model"
)

// States are all that a Service may be in.
func States() []string {
	return []string{
		StateRefused, StateConflict, StateUnusable, StateMissing, StateNoPort, StateNone, StateElsewhere, StateOpen, StateOK, StateProgrammed,
	}
}

// Reasons are all why an endpoint may get no connections.
func Reasons() (out []string) {
	for r := model.ReasonNoPort; r <= model.ReasonOtherZones; r++ {
		out = append(out, r.String())
	}
	return append(out, ReasonNotProgrammed)
}

// Kinds are all that a frontend may be of.
func Kinds() (out []string) {
	for k := model.KindClusterIP; k <= model.KindLoadBalancerIP; k++ {
		out = append(out, k.String())
	}
	return append(out, External)
}

// Policies are all that a frontend may have, as far as one is known.
func Policies() []string { return slices.Clone(policies[:]) }

// Verdicts are all that a frontend may have.
func Verdicts() []string { return slices.Clone(verdicts[:]) }

// Masquerades are all that a frontend may have, as far as one is known.
func Masquerades() []string { return slices.Clone(masquerades[:]) }
