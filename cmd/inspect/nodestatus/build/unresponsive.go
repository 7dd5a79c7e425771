package build

import (
	"net/netip"
	"strings"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/sync/passivehealth"
)

// serviceEndpoint is an endpoint of a Service, with the protocol in capitals.
type serviceEndpoint struct {
	service  model.ServiceName
	protocol string
	at       netip.AddrPort
}

// AddUnresponsive adds to a document with health which endpoints and nodes do not answer.
func AddUnresponsive(d *nodestatus.Document, r *passivehealth.Report) {
	h := &nodestatus.PassiveHealth{CutOff: r.CutOff}
	d.Health.PassiveHealth = h
	onNodes := map[netip.Addr]*nodestatus.Unresponsive{}
	for _, n := range r.Nodes {
		h.Nodes = append(h.Nodes, nodestatus.SilentNode{Name: n.Name, Since: n.Since, Endpoints: len(n.Endpoints)})
		for _, a := range n.Endpoints {
			onNodes[a] = &nodestatus.Unresponsive{Since: n.Since}
		}
	}
	h.Endpoints = len(onNodes)
	single := map[serviceEndpoint]*nodestatus.Unresponsive{}
	for i := range r.Endpoints {
		e := &r.Endpoints[i]
		if onNodes[e.Endpoint.Addr()] != nil {
			continue
		}
		h.Endpoints++
		for _, s := range e.Services {
			name := model.ServiceName{Namespace: s.Namespace, Name: s.Name}
			single[serviceEndpoint{name, strings.ToUpper(e.Protocol.String()), e.Endpoint}] = &nodestatus.Unresponsive{
				Since: e.Since, Connections: e.Connections, Questions: e.Questions,
			}
		}
	}
	if h.Endpoints == 0 {
		return
	}
	for s, p := range d.EachPort() {
		name := model.ServiceName{Namespace: s.Namespace, Name: s.Name}
		for n := range p.Endpoints {
			e := &p.Endpoints[n]
			at := e.AddrPort()
			if e.Unresponsive = onNodes[at.Addr()]; e.Unresponsive == nil {
				e.Unresponsive = single[serviceEndpoint{name, p.Protocol, at}]
			}
		}
	}
}
