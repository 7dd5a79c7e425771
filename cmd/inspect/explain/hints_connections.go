package explain

import (
	"net/netip"
	"slices"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// connections adds to open connections why no new one would go to their endpoint.
func (h *hinter) connections(s *nodestatus.Service, port *nodestatus.Port) {
	known := map[string]*nodestatus.Endpoint{}
	for i := range port.Endpoints {
		e := &port.Endpoints[i]
		if a, err := netip.ParseAddr(e.Address); err == nil && e.Reason != nodestatus.ReasonGone {
			known[netip.AddrPortFrom(a, e.Port).String()] = e
		}
	}
	if h.Connection != nil {
		e := known[h.Connection.Endpoint]
		explainStale(h.Connection, e, s)
		if h.Connection.Listed = e != nil; e != nil {
			h.Arrives = h.Arrival()
		}
	}
	for i := range h.Connections {
		explainStale(&h.Connections[i], known[h.Connections[i].Endpoint], s)
	}
}

// explainStale adds why no new connection goes to an endpoint; nil if no EndpointSlice names it.
func explainStale(c *answer.Connection, e *nodestatus.Endpoint, s *nodestatus.Service) {
	switch {
	case !c.Stale:
	case e == nil:
		c.Reason, c.Because = nodestatus.ReasonGone, "no EndpointSlice names the endpoint any more"
	case e.Reason != "":
		c.Reason, c.Because, c.Field = e.Reason, reasonText(*e), findings.FieldOf(s, e)
	}
}

// fastPath adds that later packets pass no rules, if this node forwards them: flowtables take
// neither packets from nor to programs of the node, nor SCTP.
func (h *hinter) fastPath() {
	forwards := func(o answer.Outcome) bool {
		return o.Verdict == answer.VerdictDelivered && slices.ContainsFunc(o.Endpoints,
			func(e answer.Endpoint) bool { return !e.Node })
	}
	if h.document.IsFastPathOn() && h.Interface != "" && h.packet.Protocol != model.SCTP &&
		slices.ContainsFunc(h.Outcomes, forwards) {
		h.add("the fast path is on: after %d packets of a connection, the next ones pass no rules of this node, "+
			"except fragments, those that end it, and those between pods of one bridge",
			h.document.Health.FastPath.AfterPackets)
	}
}
