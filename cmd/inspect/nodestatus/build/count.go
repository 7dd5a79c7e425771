package build

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// Count adds total and active connections to a document.
func Count(d *nodestatus.Document, total, active Sample) {
	c := newConnectionIndex(d)
	for i := range total.Connections {
		c.add(&total.Connections[i], func(t *nodestatus.Traffic, n uint64) { t.Connections += n })
	}
	for _, m := range total.Uncounted {
		if at, found := c.find(m); found {
			at.port.Uncounted, at.frontend.Uncounted = true, true
		}
	}
	for _, r := range total.Refusals {
		if at, found := c.find(r.Match); found {
			more := nodestatus.Traffic{Retried: r.Retried, NotRetried: r.Refusals - r.Retried}
			at.port.Add(&more)
			at.frontend.Add(&more)
		}
	}
	for f, full := range total.Full {
		if full {
			d.Problems = append(d.Problems, problem("Node "+d.Node, nodestatus.ReasonNotCounted, "",
				nodestatus.Args{Family: model.Family(f).String()}))
		}
	}
	gone := map[*nodestatus.Port][]nft.ConnectionCount{} // to endpoints that are not listed
	for i := range active.Connections {
		p, listed := c.add(&active.Connections[i], func(t *nodestatus.Traffic, n uint64) { t.Active += int(n) })
		if p != nil && !listed && d.Source == nodestatus.FromDaemon {
			gone[p] = append(gone[p], active.Connections[i])
		}
	}
	for p, list := range gone {
		addGone(p, list)
		delete(c.endpoints, p) // it has more now
	}
	for i := range active.Offloaded {
		d.FastPath += int(active.Offloaded[i].Connections)
		c.add(&active.Offloaded[i], func(t *nodestatus.Traffic, n uint64) { t.FastPath += int(n) })
	}
}

// maxGone is how many endpoints of a port that no EndpointSlice has are listed. Clients
// decide how long they keep connections to them.
const maxGone = 100

func addGone(p *nodestatus.Port, list []nft.ConnectionCount) {
	all := map[netip.AddrPort]int{}
	for i := range list {
		all[list[i].Endpoint] += int(list[i].Connections)
	}
	at := slices.SortedFunc(maps.Keys(all), netip.AddrPort.Compare)
	for _, e := range at[:min(len(at), maxGone)] {
		p.Endpoints = append(p.Endpoints, nodestatus.Endpoint{
			Address: e.Addr().String(), Port: e.Port(), Reason: nodestatus.ReasonGone,
			Traffic: nodestatus.Traffic{Active: all[e]},
		})
	}
	slices.SortStableFunc(p.Endpoints, func(a, b nodestatus.Endpoint) int { return a.AddrPort().Compare(b.AddrPort()) })
}

// AddResponses adds how endpoints responded while they were observed.
func AddResponses(d *nodestatus.Document, observed time.Duration, list []Response) {
	d.ObservedSeconds = observed.Seconds()
	c := newConnectionIndex(d)
	for _, r := range list {
		at, found := c.find(r.Destination)
		if !found {
			continue
		}
		if e := c.endpoint(at.port, r.Endpoint); e != nil {
			e.Refused += r.Refused
			e.Unanswered += r.Unanswered
		}
	}
}

type connectionIndex struct {
	frontends map[model.Match]frontendRef
	nodeAddrs model.NodeAddrs
	endpoints map[*nodestatus.Port]map[netip.AddrPort]*nodestatus.Endpoint // built on first use
}

type frontendRef struct {
	port     *nodestatus.Port
	frontend *nodestatus.Frontend
	brief    bool // endpoints are not listed
}

func newConnectionIndex(d *nodestatus.Document) *connectionIndex {
	c := &connectionIndex{
		frontends: map[model.Match]frontendRef{}, endpoints: map[*nodestatus.Port]map[netip.AddrPort]*nodestatus.Endpoint{},
	}
	for _, text := range d.NodeAddresses {
		if addr, err := netip.ParseAddr(text); err == nil {
			c.nodeAddrs = append(c.nodeAddrs, addr)
		}
	}
	slices.SortFunc(c.nodeAddrs, netip.Addr.Compare)
	for s, p := range d.EachPort() {
		for n := range p.Frontends {
			f := &p.Frontends[n]
			c.frontends[match(p, f)] = frontendRef{port: p, frontend: f, brief: s.Addresses != nil}
		}
	}
	return c
}

func match(p *nodestatus.Port, f *nodestatus.Frontend) model.Match {
	m := model.Match{Port: f.Port}
	if p.Family == model.IPv6.String() {
		m.Family = model.IPv6
	}
	m.Protocol, _ = model.ParseProtocol(p.Protocol)
	m.Addr, _ = netip.ParseAddr(f.Address) // invalid for a node port
	return m
}

// find returns the frontend of a destination or, at an address of the node, the node port.
// A document may contain only some Services, so other addresses with that port belong to
// other Services, or to other programs.
func (c *connectionIndex) find(to model.Match) (at frontendRef, found bool) {
	_, at, found = model.Find(c.frontends, c.nodeAddrs, to)
	return at, found
}

// add counts a connection. It returns the port, nil if there is none, and whether the document
// lists the endpoint, as far as it lists any.
func (c *connectionIndex) add(
	n *nft.ConnectionCount, to func(*nodestatus.Traffic, uint64),
) (p *nodestatus.Port, listed bool) {
	at, found := c.find(n.Destination)
	if !found {
		return nil, false
	}
	to(&at.port.Traffic, n.Connections)
	to(&at.frontend.Traffic, n.Connections)
	e := c.endpoint(at.port, n.Endpoint)
	if e != nil {
		to(&e.Traffic, n.Connections)
	}
	return at.port, e != nil || at.brief
}

func (c *connectionIndex) endpoint(p *nodestatus.Port, at netip.AddrPort) *nodestatus.Endpoint {
	all := c.endpoints[p]
	if all == nil {
		all = make(map[netip.AddrPort]*nodestatus.Endpoint, len(p.Endpoints))
		for i := range p.Endpoints {
			e := &p.Endpoints[i]
			if known := all[e.AddrPort()]; known == nil || !known.Used() {
				all[e.AddrPort()] = e
			}
		}
		c.endpoints[p] = all
	}
	return all[at]
}
