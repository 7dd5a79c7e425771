package findings

import (
	"slices"

	"kube-vmap/cmd/inspect/status"
)

// notCounted adds that connections to a port are not counted.
func (c *collector) notCounted(p *status.Port) {
	if !p.Uncounted {
		return
	}
	d := c.draft(status.SeverityNotice, status.ReasonNotCounted, "", p, func(*draft) string {
		return "its namespace has more than its share of the connection counters: connections are not counted for ten minutes, nor resets observed"
	})
	for i := range p.Frontends {
		if p.Frontends[i].Uncounted {
			d.frontend(p, &p.Frontends[i])
		}
	}
}

// NotCounted reports whether something was not counted, so that there may be problems that
// the list does not have.
func (l *List) NotCounted() bool {
	return slices.ContainsFunc(l.Findings, func(f Finding) bool { return f.Reason == status.ReasonNotCounted })
}
