package explain

import "kube-vmap/cmd/inspect/explain/answer"

// ranks order whether packets arrive, the worst last.
var ranks = map[string]int{answer.Always: 0, answer.Sometimes: 1, answer.Unknown: 2, answer.Never: 3}

// inTurn returns whether a packet arrives that must pass several places one after another.
func inTurn(values ...string) string {
	worst := answer.Always
	for _, v := range values {
		if ranks[v] > ranks[worst] {
			worst = v
		}
	}
	return worst
}

// either returns whether a packet arrives that takes one of several ways. If it arrives on
// some and not on others, the unknown ones do not matter.
func either(values ...string) string {
	has := map[string]bool{}
	for _, v := range values {
		has[v] = true
	}
	switch {
	case has[answer.Sometimes], has[answer.Always] && has[answer.Never]:
		return answer.Sometimes
	case has[answer.Unknown]:
		return answer.Unknown
	case has[answer.Always]:
		return answer.Always
	}
	return answer.Never
}
