package passivehealth

import (
	"maps"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// An endpoint is one of any Service.
type endpoint struct {
	protocol model.Protocol
	addr     netip.AddrPort
}

// pools are the Service ports with passive health checks.
type pools map[model.Match]*pool

// A pool has the endpoints of a [model.Pool]: those that serve, and those that are avoided.
type pool struct {
	key     model.Match
	service sync.Object
	port    string // of the Service
	mode    model.PassiveChecks
	lists   [3][]netip.AddrPort
	// sent are the unresponsive endpoints that the loop knows, sorted.
	sent []netip.AddrPort
	// lost means that the loop may have forgotten them: the pool was without some of them meanwhile,
	// also unseen, in a change before all was committed again.
	lost bool
}

// apply follows a commit and returns the pools that are new or changed, and those that were
// replaced or are gone.
func (p pools) apply(c sync.Committed) (changed, replaced []*pool) {
	before := p
	if c.Full {
		before = maps.Clone(p)
		clear(p)
		replaced = slices.Collect(maps.Values(before))
	}
	remove := func(m model.Match) {
		if p[m] != nil {
			replaced = append(replaced, p[m])
			delete(p, m)
		}
	}
	for i := range c.Set {
		f := &c.Set[i]
		if !f.IsClusterIP() {
			continue
		}
		old := before[f.Match]
		remove(f.Match)
		if f.Pool.PassiveChecks == 0 {
			continue
		}
		next := newPool(f)
		if old != nil && old.service == next.service && old.mode == next.mode {
			next.sent = old.sent
			next.lost = old.lost || slices.ContainsFunc(old.sent, func(a netip.AddrPort) bool {
				return c.Full || !next.has(endpoint{next.key.Protocol, a})
			})
		}
		p[f.Match] = next
		changed = append(changed, next)
	}
	for _, m := range c.Gone {
		remove(m)
	}
	return changed, replaced
}

func newPool(f *model.Frontend) *pool {
	m := f.Pool
	return &pool{
		key: m.Key,
		service: sync.Object{
			Kind: "Service", Namespace: f.Service.Namespace, Name: f.Service.Name, UID: m.UID,
		},
		port: f.Service.Port, mode: m.PassiveChecks,
		lists: [3][]netip.AddrPort{m.Cluster, m.Local, m.Avoided}, sent: m.Avoided,
	}
}

// has reports whether the pool has the endpoint. Its lists are sorted.
func (p *pool) has(e endpoint) bool {
	return p.key.Protocol == e.protocol && slices.ContainsFunc(p.lists[:], func(list []netip.AddrPort) bool {
		_, found := slices.BinarySearchFunc(list, e.addr, netip.AddrPort.Compare)
		return found
	})
}

// each calls fn for the endpoints of the pool; for some of them twice.
func (p *pool) each(fn func(endpoint)) {
	for _, list := range p.lists {
		for _, a := range list {
			fn(endpoint{p.key.Protocol, a})
		}
	}
}

// having returns the pools of each of these endpoints. It looks at all pools.
func having[T any](p pools, wanted map[endpoint]T) map[endpoint][]*pool {
	out := map[endpoint][]*pool{}
	for _, each := range p {
		each.each(func(e endpoint) {
			if _, ok := wanted[e]; ok && (len(out[e]) == 0 || out[e][len(out[e])-1] != each) {
				out[e] = append(out[e], each)
			}
		})
	}
	return out
}
