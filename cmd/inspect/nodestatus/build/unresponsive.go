package build

import (
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/sync/follow/hold"
	"kube-vmap/sync/follow/passivehealth"
)

// serviceEndpoint is an endpoint of a Service, with the protocol in capitals.
type serviceEndpoint struct {
	service  model.ServiceName
	protocol string
	at       netip.AddrPort
}

// AddUnresponsive adds to a document with health which endpoints are unresponsive, or possibly so.
func AddUnresponsive(d *nodestatus.Document, r *passivehealth.Report) {
	h := &nodestatus.PassiveHealth{LateSeconds: int(r.Late.Seconds())}
	d.Health.PassiveHealth = h
	found := map[serviceEndpoint]*nodestatus.Unresponsive{}
	for i := range r.Endpoints {
		e := &r.Endpoints[i]
		if e.Possibly {
			h.Possibly++
		} else {
			h.Endpoints++
		}
		for _, s := range e.Services {
			name := model.ServiceName{Namespace: s.Namespace, Name: s.Name}
			found[serviceEndpoint{name, strings.ToUpper(e.Protocol.String()), e.Endpoint}] = &nodestatus.Unresponsive{
				Since: e.Since, Clients: e.Clients, Connections: e.Connections, Probes: e.Probes,
				Possibly: e.Possibly, ProbesWorked: e.ProbesWorked,
				NotAvoided: map[bool]string{true: nodestatus.MaxPercent}[slices.Contains(e.Avoiding, s)],
			}
		}
	}
	if len(found) == 0 {
		return
	}
	for s, p := range d.EachPort() {
		name := model.ServiceName{Namespace: s.Namespace, Name: s.Name}
		for n := range p.Endpoints {
			e := &p.Endpoints[n]
			e.Unresponsive = found[serviceEndpoint{name, p.Protocol, e.AddrPort()}]
			if u := e.Unresponsive; u != nil && u.NotAvoided != "" {
				e.Unresponsive = new(*u)
				e.Unresponsive.NotAvoided = whyNotAvoided(p, e)
			}
		}
	}
}

// whyNotAvoided returns why an unresponsive endpoint gets new connections, if it does.
func whyNotAvoided(p *nodestatus.Port, e *nodestatus.Endpoint) string {
	switch {
	case !e.Used():
		return ""
	case slices.ContainsFunc(p.Endpoints, func(o nodestatus.Endpoint) bool {
		return o.AddrPort() != e.AddrPort() && o.Used() && (o.LocalSlot != nil || e.Slot != nil || e.LocalSlot == nil)
	}):
		return nodestatus.MaxPercent
	}
	return nodestatus.LastEndpoint
}

func addWaiting(d *nodestatus.Document, list []hold.Waiting) {
	if len(list) == 0 {
		return
	}
	if d.Health != nil {
		d.Health.WaitingPorts = len(list)
	}
	byKey := map[string]*nodestatus.Waiting{}
	for _, w := range list {
		byKey[w.Key.String()] = &nodestatus.Waiting{Clients: w.Clients, Since: w.Since}
	}
	for _, p := range d.EachPort() {
		if len(p.Frontends) > 0 { // the ClusterIP is the first
			p.Waiting = byKey[p.Frontends[0].At(p.Protocol)]
		}
	}
}
