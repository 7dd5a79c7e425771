package explain

import "kube-vmap/cmd/inspect/explain/answer"

// inTurn returns whether a packet arrives that must pass several places one after another.
func inTurn(values ...string) string {
	worst := answer.Always
	rank := map[string]int{answer.Always: 0, answer.Sometimes: 1, answer.Unknown: 2, answer.Never: 3}
	for _, v := range values {
		if rank[v] > rank[worst] {
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
