package simulate

import "github.com/google/nftables/expr"

// Jump returns the chain that a rule jumps or goes to; empty if it does not.
func (r Rule) Jump() string {
	if len(r.Expressions) == 0 {
		return ""
	}
	v, ok := r.Expressions[len(r.Expressions)-1].(*expr.Verdict)
	if !ok {
		return ""
	}
	return v.Chain
}

// Comment returns the comment of a rule of iptables.
func (r Rule) Comment() string {
	for _, e := range r.Expressions {
		if x, ok := e.(Extension); ok && x.Name == "comment" {
			return x.info.text(0, len(x.info.data))
		}
	}
	return ""
}
