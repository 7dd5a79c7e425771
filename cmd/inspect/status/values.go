package status

import "kube-vmap/model"

// States returns all states of Services.
func States() []string {
	return []string{
		StateRefused, StateConflict, StateUnusable, StateNotProgrammed, StateNoPort,
		StateNoEndpoints, StateNotReady, StateDrained, StateNoneLocal, StateOpen, StateOK, StateProgrammed,
	}
}

// Reasons returns all reasons of endpoints without connections.
func Reasons() (out []string) {
	for r := model.ReasonNoPort; r <= model.ReasonOtherZones; r++ {
		out = append(out, r.String())
	}
	return append(out, ReasonNotProgrammed, ReasonBusy, ReasonGone)
}

// Kinds returns all kinds of frontends.
func Kinds() (out []string) {
	for k := model.KindClusterIP; k <= model.KindLoadBalancerIP; k++ {
		out = append(out, k.String())
	}
	return append(out, External)
}

// Policies returns all traffic policies, by [model.TrafficPolicy].
func Policies() []string {
	return []string{model.PolicyCluster: "Cluster", model.PolicyLocal: "Local"}
}

// Verdicts returns all verdicts of frontends, by [model.Verdict].
func Verdicts() []string {
	return []string{model.VerdictBalance: VerdictBalance, model.VerdictReject: VerdictReject, model.VerdictDrop: VerdictDrop}
}

// Masquerades returns all values of [Frontend.Masquerade], by [model.Masquerade].
func Masquerades() []string {
	return []string{model.MasqueradeNever: "never", model.MasqueradeOffPod: "off-pod", model.MasqueradeAlways: "always"}
}
