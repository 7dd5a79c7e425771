package explain

import (
	"net/netip"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/status"
)

// connections adds to open connections why no new one would go to their endpoint.
func (h *hinter) connections(s *status.Service, port *status.Port) {
	known := map[string]*status.Endpoint{}
	for i := range port.Endpoints {
		e := &port.Endpoints[i]
		if a, err := netip.ParseAddr(e.Address); err == nil && e.Reason != status.ReasonGone {
			known[netip.AddrPortFrom(a, e.Port).String()] = e
		}
	}
	if h.Connection != nil {
		e := known[h.Connection.Endpoint]
		explainChanges(h.Connection, e, s)
		if h.Connection.Listed = e != nil; e != nil {
			h.Arrives = h.Arrival()
		}
	}
	for i := range h.Connections {
		explainChanges(&h.Connections[i], known[h.Connections[i].Endpoint], s)
	}
}

// explainChanges adds why no new connection goes to an endpoint; nil if no EndpointSlice names
// it.
func explainChanges(c *answer.Connection, e *status.Endpoint, s *status.Service) {
	for i := range c.Changes {
		switch change := &c.Changes[i]; {
		case change.Kind != answer.ChangeEndpoint || change.Because != "":
		case e == nil:
			change.Because = "no EndpointSlice names the endpoint any more"
		case e.Reason != "":
			change.Because, change.Field = reasonText(*e), findings.FieldOf(s, e)
		}
	}
}
