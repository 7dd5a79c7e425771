package findings

import (
	"strings"

	"kube-vmap/cmd/inspect/nodestatus"
)

// unresponsive collects the endpoints that do not answer, each a finding of its own: the field
// has its address. Those on a node that does not answer are in the finding about the node.
func (c *collector) unresponsive(p *nodestatus.Port) {
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		if e.Unresponsive == nil || e.Unresponsive.Questions == 0 {
			continue
		}
		d := c.draft(problem, EndpointNotAnswering, fieldAddress+e.Address, p)
		at := e.At() + "/" + strings.ToLower(p.Protocol)
		if d.Names = once(d.Names, at); e.Reason == nodestatus.ReasonAvoided {
			d.Kind = KindAvoided
		}
		d.Endpoints, d.Message = once(d.Endpoints, e.At()), e.Node
		d.Named, d.NamedOf = d.Endpoints, len(d.Endpoints)
		d.Count, d.Number = d.Count+e.Unresponsive.Connections, d.Number+e.Unresponsive.Questions
		if d.Since.IsZero() || e.Unresponsive.Since.Before(d.Since) {
			d.Since = e.Unresponsive.Since
		}
	}
}

func silentNodes(d *nodestatus.Document) (out []Finding) {
	if d.Health == nil || d.Health.PassiveHealth == nil {
		return nil
	}
	for _, n := range d.Health.PassiveHealth.Nodes {
		out = append(out, Finding{
			Severity: problem, Object: "Node " + n.Name, Reason: NodeNotAnswering,
			Args: nodestatus.Args{Since: n.Since},
		})
	}
	return out
}
