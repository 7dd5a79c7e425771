package findings

import (
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// unresponsive collects the endpoints that are unresponsive, or possibly so, each a finding of its
// own: the field has its address.
func (c *collector) unresponsive(p *nodestatus.Port) {
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		u := e.Unresponsive
		if u == nil {
			continue
		}
		severity, reason, kind := problem, model.ProblemEndpointUnresponsive, ""
		switch {
		case u.Possibly:
			severity, reason = notice, model.ProblemEndpointPossiblyUnresponsive
			if u.ProbesWorked {
				kind = nodestatus.KindProbesWorked
			}
		case e.Reason == nodestatus.ReasonAvoided:
			kind = nodestatus.KindAvoided
		default:
			kind = u.NotAvoided
		}
		d := c.draft(severity, reason, nodestatus.FieldAddress+e.Address, p)
		if kind != "" {
			d.Kind = kind
		}
		at := e.At() + "/" + strings.ToLower(p.Protocol)
		if slices.Contains(d.Names, at) { // through another port of the Service
			continue
		}
		d.Names = append(d.Names, at)
		d.Endpoints, d.Message = once(d.Endpoints, e.At()), e.Node
		d.Named, d.NamedOf = d.Endpoints, len(d.Endpoints)
		d.Count, d.Number = d.Count+u.Connections, d.Number+u.Probes
		if d.Clients = u.Clients; len(d.Names) > 1 {
			d.Clients = 0 // they may be the same ones
		}
		d.Since = earlier(d.Since, u.Since)
	}
}
