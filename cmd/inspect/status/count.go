package status

import (
	"net/netip"
	"strings"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// Count adds the connections that were counted so far, and those that are active.
func (d *Document) Count(so, active []nft.ConnectionCount) {
	c := newCounting(d)
	for i := range so {
		c.add(&so[i], func(t *Traffic, n uint64) { t.Connections += n })
	}
	for i := range active {
		c.add(&active[i], func(t *Traffic, n uint64) { t.Active += int(n) })
	}
}

// counting finds what a connection counts for.
type counting struct {
	at        map[model.Match]place
	nodeAddrs map[netip.Addr]struct{}
	endpoints map[*Port]map[netip.AddrPort]*Endpoint // made when first needed
}

// place is a frontend and the port it is one of.
type place struct {
	port     *Port
	frontend *Frontend
}

func newCounting(d *Document) *counting {
	c := &counting{
		at: map[model.Match]place{}, nodeAddrs: make(map[netip.Addr]struct{}, len(d.NodeAddresses)),
		endpoints: map[*Port]map[netip.AddrPort]*Endpoint{},
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
				c.at[p.match(&p.Frontends[n])] = place{p, &p.Frontends[n]}
			}
		}
	}
	return c
}

// match is what a packet must carry to meet a frontend of the port.
func (p *Port) match(f *Frontend) model.Match {
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

// add counts for the frontend that was asked for, or else, at an address of the node,
// for the node port. A document may be of some Services only: other addresses with
// that port are those of others, or of other programs.
func (c *counting) add(n *nft.ConnectionCount, to func(*Traffic, uint64)) {
	at, found := c.at[n.Asked]
	if _, ours := c.nodeAddrs[n.Asked.Addr]; !found && ours {
		port := n.Asked
		port.Addr = netip.Addr{}
		at, found = c.at[port]
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

// endpoint is the one of a port at an address, nil if it has none there any more.
func (c *counting) endpoint(p *Port, at netip.AddrPort) *Endpoint {
	all := c.endpoints[p]
	if all == nil {
		all = make(map[netip.AddrPort]*Endpoint, len(p.Endpoints))
		for i := range p.Endpoints {
			e := &p.Endpoints[i]
			if known := all[e.addrPort()]; known == nil || !known.Used() {
				all[e.addrPort()] = e
			}
		}
		c.endpoints[p] = all
	}
	return all[at]
}
