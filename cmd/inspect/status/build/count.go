package build

import (
	"net/netip"
	"strings"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// Count adds total and active connections to a document.
func Count(d *status.Document, total, active []nft.ConnectionCount) {
	c := newConnectionIndex(d)
	for i := range total {
		c.add(&total[i], func(t *status.Traffic, n uint64) { t.Connections += n })
	}
	for i := range active {
		c.add(&active[i], func(t *status.Traffic, n uint64) { t.Active += int(n) })
	}
}

// connectionIndex finds the frontend and endpoint of a connection.
type connectionIndex struct {
	frontends map[model.Match]frontendRef
	nodeAddrs map[netip.Addr]struct{}
	endpoints map[*status.Port]map[netip.AddrPort]*status.Endpoint // built on first use
}

// frontendRef is a frontend and its port.
type frontendRef struct {
	port     *status.Port
	frontend *status.Frontend
}

func newConnectionIndex(d *status.Document) *connectionIndex {
	c := &connectionIndex{
		frontends: map[model.Match]frontendRef{}, nodeAddrs: make(map[netip.Addr]struct{}, len(d.NodeAddresses)),
		endpoints: map[*status.Port]map[netip.AddrPort]*status.Endpoint{},
	}
	for _, text := range d.NodeAddresses {
		if addr, err := netip.ParseAddr(text); err == nil {
			c.nodeAddrs[addr] = struct{}{}
		}
	}
	for i := range d.Services {
		for k := range d.Services[i].Ports {
			p := &d.Services[i].Ports[k]
			for n := range p.Frontends {
				c.frontends[match(p, &p.Frontends[n])] = frontendRef{p, &p.Frontends[n]}
			}
		}
	}
	return c
}

// match returns what a packet to a frontend of the port carries.
func match(p *status.Port, f *status.Frontend) model.Match {
	m := model.Match{Port: f.Port}
	for _, family := range model.Families {
		if family.String() == p.Family {
			m.Family = family
		}
	}
	for _, protocol := range model.Protocols {
		if strings.EqualFold(protocol.String(), p.Protocol) {
			m.Protocol = protocol
		}
	}
	m.Addr, _ = netip.ParseAddr(f.Address) // invalid for a node port
	return m
}

// add counts a connection for its frontend or, at an address of the node, for the node
// port. A document may contain only some Services, so other addresses with that port
// belong to other Services, or to other programs.
func (c *connectionIndex) add(n *nft.ConnectionCount, to func(*status.Traffic, uint64)) {
	at, found := c.frontends[n.Destination]
	if _, ours := c.nodeAddrs[n.Destination.Addr]; !found && ours {
		port := n.Destination
		port.Addr = netip.Addr{}
		at, found = c.frontends[port]
	}
	if !found {
		return
	}
	to(&at.port.Traffic, n.Connections)
	to(&at.frontend.Traffic, n.Connections)
	if e := c.endpoint(at.port, n.Endpoint); e != nil {
		to(&e.Traffic, n.Connections)
	}
}

// endpoint returns the endpoint of a port at an address, or nil.
func (c *connectionIndex) endpoint(p *status.Port, at netip.AddrPort) *status.Endpoint {
	all := c.endpoints[p]
	if all == nil {
		all = make(map[netip.AddrPort]*status.Endpoint, len(p.Endpoints))
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
