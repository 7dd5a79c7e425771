package passivehealth

import (
	"net/netip"
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
)

// An endpoint is one of any Service.
type endpoint struct {
	protocol model.Protocol
	addr     netip.AddrPort
}

// pools are the Service ports with passive health checks.
type pools struct {
	all       map[model.Match]*pool       // by their keys
	keys      map[model.Match]model.Match // of the pools of all frontends
	nodeAddrs model.NodeAddrs
	kinds     map[kind]int // pools of each kind
}

// A pool has the endpoints of a [model.Pool]: those that serve, are avoided, or stand by.
type pool struct {
	key     model.Match
	service sync.Object
	mode    model.PassiveChecks
	lists   [4][]netip.AddrPort
	onNode  []netip.Addr // of the endpoints on this node
	// sent are the unresponsive endpoints that the loop knows.
	sent []netip.AddrPort
	// lost means that the loop may have forgotten them: the pool was without some of them meanwhile,
	// also unseen, in a change before all was committed again.
	lost bool
	// replies are the last replies to probes, of two endpoints, and unanswered is when a control
	// last had none.
	replies      [2]reply
	unanswered   time.Time
	used, joined time.Time // when clients last used it, and when its endpoints were remembered for that
	counted      uint64    // the sum of the kernel's counters
}

// A reply is one to a probe.
type reply struct {
	endpoint
	at time.Time
}

// apply follows a commit and returns the pools that are new or changed, and those that were
// replaced or removed.
func (p *pools) apply(c sync.Committed) (changed, replaced []*pool) {
	remove := func(m, _ model.Match) {
		if old := p.all[m]; old != nil {
			replaced = append(replaced, old)
			p.kinds[kind{m.Family, m.Protocol}]--
			delete(p.all, m)
		}
	}
	follow.Update(p.keys, c, func(f *model.Frontend, _ model.Match, _ bool) (key model.Match, checked bool) {
		if f.Pool.PassiveChecks == 0 {
			return key, false
		}
		if f.IsClusterIP() {
			old := p.all[f.Match]
			remove(f.Match, f.Match)
			next := newPool(f)
			next.inherit(old, c.Full)
			p.all[f.Match] = next
			p.kinds[kind{f.Match.Family, f.Match.Protocol}]++
			changed = append(changed, next)
		}
		return f.Pool.Key, true
	}, remove)
	p.nodeAddrs = c.NodeAddrs
	return changed, replaced
}

// inherit takes over the state of a pool of the same Service before a commit, if any.
func (p *pool) inherit(old *pool, full bool) {
	if old == nil || old.service != p.service || old.mode != p.mode {
		return
	}
	p.sent, p.replies, p.unanswered = old.sent, old.replies, old.unanswered
	p.used, p.counted = old.used, old.counted
	p.lost = old.lost || slices.ContainsFunc(old.sent, func(a netip.AddrPort) bool {
		return full || !p.has(endpoint{p.key.Protocol, a})
	})
}

func newPool(f *model.Frontend) *pool {
	m := f.Pool
	return &pool{
		key: m.Key,
		service: sync.Object{
			Kind: "Service", Namespace: f.Service.Namespace, Name: f.Service.Name, UID: m.UID,
		},
		mode: m.PassiveChecks, lists: [...][]netip.AddrPort{m.Cluster, m.Local, m.Avoided, m.StandBy},
		onNode: m.Hairpin, sent: m.Avoided,
	}
}

// find returns the pool of a Service port by the original destination of a connection, or nil.
func (p *pools) find(protocol model.Protocol, to netip.AddrPort) *pool {
	m := model.Match{Addr: to.Addr(), Port: to.Port(), Family: model.FamilyOf(to.Addr()), Protocol: protocol}
	_, key, _ := model.Find(p.keys, p.nodeAddrs, m)
	return p.all[key]
}

// has reports whether the pool has the endpoint. Its lists are sorted.
func (p *pool) has(e endpoint) bool {
	return p.key.Protocol == e.protocol && slices.ContainsFunc(p.lists[:], func(list []netip.AddrPort) bool {
		_, found := slices.BinarySearchFunc(list, e.addr, netip.AddrPort.Compare)
		return found
	})
}

// size returns the number of endpoints; some of them count twice.
func (p *pool) size() (n int) {
	for _, list := range p.lists {
		n += len(list)
	}
	return n
}

// at returns one of the endpoints, by a number below size.
func (p *pool) at(i int) endpoint {
	for _, list := range p.lists {
		if i < len(list) {
			return endpoint{p.key.Protocol, list[i]}
		}
		i -= len(list)
	}
	return endpoint{}
}

// hasOther reports whether the pool has an endpoint besides e.
func (p *pool) hasOther(e endpoint) bool {
	for i := range p.size() {
		if p.at(i) != e {
			return true
		}
	}
	return false
}

// isLocal reports whether the endpoint is on this node.
func (p *pool) isLocal(e endpoint) bool { return slices.Contains(p.onNode, e.addr.Addr()) }

// addReply remembers a reply to a probe.
func (p *pool) addReply(e endpoint, now time.Time) {
	if p.replies[0].endpoint != e {
		p.replies[1] = p.replies[0]
	}
	p.replies[0] = reply{e, now}
}

// controls returns the endpoints at other addresses that last replied.
func (p *pool) controls(of endpoint) []reply {
	return slices.DeleteFunc(slices.Clone(p.replies[:]), func(r reply) bool {
		return r.at.IsZero() || r.addr.Addr() == of.addr.Addr() || !p.has(r.endpoint)
	})
}
