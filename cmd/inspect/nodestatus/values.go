package nodestatus

import (
	"fmt"
	"strings"
	"time"

	"kube-vmap/model"
)

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
	return []string{
		model.VerdictBalance: VerdictBalance, model.VerdictReject: VerdictReject,
		model.VerdictDrop: VerdictDrop,
	}
}

// Masquerades returns all values of [Frontend.Masquerade], by [model.Masquerade].
func Masquerades() []string {
	return []string{model.MasqueradeNever: "never", model.MasqueradeOffPod: "off-pod", model.MasqueradeAlways: "always"}
}

// Plural returns a number and a noun: "1 node", "2 nodes".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// JoinFirst joins the first names of a list, at most limit, and adds how many more of all there
// are: "a, b and 3 more".
func JoinFirst(list []string, all, limit int) string {
	text := strings.Join(list[:min(len(list), limit)], ", ")
	if more := all - limit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Duration returns a duration in its two largest units: 3d4h, 2h5m, 4m10s, 3s.
func Duration(d time.Duration) string {
	d = max(d.Round(time.Second), 0)
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return d.String()
}
