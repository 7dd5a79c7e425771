package status

import (
	"slices"

	"kube-vmap/model"
)

// States returns all states of Services.
func States() []string {
	return []string{
		StateRefused, StateConflict, StateUnusable, StateMissing, StateNoPort, StateNoEndpoints, StateNotLocal, StateOpen, StateOK, StateProgrammed,
	}
}

// Reasons returns all reasons of endpoints without connections.
func Reasons() (out []string) {
	for r := model.ReasonNoPort; r <= model.ReasonOtherZones; r++ {
		out = append(out, r.String())
	}
	return append(out, ReasonNotProgrammed, ReasonBusy)
}

// Kinds returns all kinds of frontends.
func Kinds() (out []string) {
	for k := model.KindClusterIP; k <= model.KindLoadBalancerIP; k++ {
		out = append(out, k.String())
	}
	return append(out, External)
}

// Policies returns all traffic policies.
func Policies() []string { return slices.Clone(policies[:]) }

// Verdicts returns all verdicts of frontends.
func Verdicts() []string { return slices.Clone(verdicts[:]) }

// Masquerades returns all values of [Frontend.Masquerade].
func Masquerades() []string { return slices.Clone(masquerades[:]) }
