package findings

import (
	"fmt"

	"kube-vmap/cmd/inspect/status"
)

// A nodeScheduler counts the ports that have the scheduler of the node, and not one of
// their Service. One finding is enough for all of them.
type nodeScheduler map[string]int

func (n nodeScheduler) add(scheduler string) { n[scheduler]++ }

func (n nodeScheduler) findings(d *status.Document) (out []Finding) {
	for name, ports := range n {
		out = append(out, Finding{
			Severity: status.SeverityNotice, Object: "Node " + d.Node, Reason: Scheduler, Field: fieldScheduler + ": " + name,
			Text: fmt.Sprintf("%s, at the %s of Services that do not name a scheduler", schedulerTexts[name], status.Plural(ports, "port")),
		})
	}
	return out
}
