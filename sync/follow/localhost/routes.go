package localhost

import (
	"errors"
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
	"kube-vmap/sync/follow/listen"
)

// loopback are the addresses to listen on.
var loopback = [len(model.Families)]netip.Addr{
	model.IPv4: netip.AddrFrom4([4]byte{127, 0, 0, 1}),
	model.IPv6: netip.IPv6Loopback(),
}

// A route is the destination of a node port.
type route struct {
	service   model.ServiceName
	uid       string // of the Service
	clusterIP netip.AddrPort
}

func (p route) socket(m model.Match) listen.Socket {
	return listen.Socket{Service: p.service, UID: p.uid, Addr: netip.AddrPortFrom(loopback[m.Family], m.Port)}
}

// Follow implements [sync.Follower].
func (p *Proxy) Follow(t sync.Committed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodeAddrs = usableNodeAddrs(t.NodeAddrs)
	var closed, opened []listen.Socket
	removed := func(m model.Match, r route) { closed = append(closed, r.socket(m)) }
	follow.Update(p.routes, t, func(f *model.Frontend, before route, known bool) (now route, serves bool) {
		if !p.isServed(f) {
			return now, false
		}
		if known {
			removed(f.Match, before)
		}
		now = route{
			service: f.Service.ServiceName, uid: f.Pool.UID,
			clusterIP: netip.AddrPortFrom(f.Pool.Key.Addr, f.Pool.Key.Port),
		}
		opened = append(opened, now.socket(f.Match))
		return now, true
	}, removed)
	p.sockets.Change(closed, opened)
}

// isServed reports whether a frontend is served. Without endpoints it is not, and
// connections are refused, as at the node's other addresses.
func (p *Proxy) isServed(f *model.Frontend) bool {
	return p.Families[f.Match.Family] && f.Kind == model.KindNodePort && f.Match.Protocol == model.TCP && f.Served()
}

// usableNodeAddrs returns the first address of each family to connect to. It skips
// link-local addresses, and loopback addresses, which would reach this proxy again.
func usableNodeAddrs(addrs []netip.Addr) [len(model.Families)]netip.Addr {
	var hosts [len(model.Families)]netip.Addr
	for _, a := range addrs {
		if host := &hosts[model.FamilyOf(a)]; !host.IsValid() && a.IsGlobalUnicast() {
			*host = a
		}
	}
	return hosts
}

func (p *Proxy) target(s listen.Socket) (netip.AddrPort, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := model.Match{Family: model.FamilyOf(s.Addr.Addr()), Protocol: model.TCP, Port: s.Addr.Port()}
	to, known := p.routes[m]
	if !known || to.service != s.Service {
		return netip.AddrPort{}, errors.New("no Service has this node port") // it was removed meanwhile
	}
	if host := p.nodeAddrs[m.Family]; host.IsValid() {
		return netip.AddrPortFrom(host, m.Port), nil
	}
	return to.clusterIP, nil
}
