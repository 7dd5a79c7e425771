package build

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// FromSnapshot returns the document of what the loop knows, without connections; see
// [Count].
func FromSnapshot(v *sync.Snapshot, q nodestatus.Query, now time.Time) *nodestatus.Document {
	b := newBuilder(q, nodestatus.FromDaemon, now)
	b.snapshot = v
	b.doc.Node, b.doc.Ready = v.Node.Name, v.Ready
	b.nodeAddrs(v.NodeAddrs)
	for _, p := range v.PodRanges {
		if p.IsValid() {
			b.doc.PodRanges = append(b.doc.PodRanges, p.String())
		}
	}
	b.addFrontends(v.Installed)
	for _, e := range v.Elsewhere {
		if name := e.Service.ServiceName; q.Matches(name) {
			b.service(name).elsewhere = append(b.service(name).elsewhere, e)
		}
	}
	for i := range v.Services {
		if name := v.Services[i].Name; q.Matches(name) {
			b.service(name).known = &v.Services[i]
		}
	}
	b.problems()
	return b.document()
}

// FromTables returns the document of what the kernel holds.
func FromTables(t nft.Tables, q nodestatus.Query, now time.Time) *nodestatus.Document {
	b := newBuilder(q, nodestatus.FromKernel, now)
	for _, f := range model.Families {
		b.unreached[f] = !t.Dispatches(f)
	}
	b.nodeAddrs(t.NodeAddrs())
	b.addFrontends(t.Installed())
	return b.document()
}

// builder builds a document. Frontends are assigned to their Services, and everything
// else is done Service by Service.
type builder struct {
	query    nodestatus.Query
	doc      *nodestatus.Document
	snapshot *sync.Snapshot // nil if only the kernel is known
	services map[model.ServiceName]*serviceBuilder
	// unreached are the families whose elements in the kernel no packet reaches.
	unreached [len(model.Families)]bool
}

type serviceBuilder struct {
	known     *model.ServiceSnapshot // nil if its objects are not known
	installed []nft.InstalledFrontend
	elsewhere []model.Frontend
	problems  []nodestatus.Problem
	contested []nodestatus.Problem
	// unserved counts endpoints for maxUnserved; unoffered are the endpoints of each port
	// that no EndpointSlice has.
	unserved  int
	unoffered [len(model.Families)][]model.EndpointExplanation
}

func newBuilder(q nodestatus.Query, source string, now time.Time) *builder {
	doc := &nodestatus.Document{Schema: nodestatus.Schema, Source: source, Time: now, Services: []nodestatus.Service{}}
	return &builder{query: q, doc: doc, services: map[model.ServiceName]*serviceBuilder{}}
}

func (b *builder) nodeAddrs(addrs []netip.Addr) {
	for _, a := range addrs {
		b.doc.NodeAddresses = append(b.doc.NodeAddresses, a.String())
	}
}

func (b *builder) service(name model.ServiceName) *serviceBuilder {
	f := b.services[name]
	if f == nil {
		f = &serviceBuilder{}
		b.services[name] = f
	}
	return f
}

func (b *builder) addFrontends(all []nft.InstalledFrontend) {
	for _, s := range all {
		if name := s.Service.ServiceName; b.query.Matches(name) {
			f := b.service(name)
			f.installed = append(f.installed, s)
		}
	}
}

func (b *builder) document() *nodestatus.Document {
	names := slices.SortedFunc(maps.Keys(b.services), model.ServiceName.Compare)
	b.doc.Services = make([]nodestatus.Service, len(names))
	for i, name := range names {
		b.doc.Services[i] = b.build(name, b.services[name])
	}
	return b.doc
}

type portKey struct {
	family   model.Family
	name     string
	protocol model.Protocol
}

func (k portKey) compare(o portKey) int {
	return cmp.Or(cmp.Compare(k.family, o.family), cmp.Compare(k.name, o.name), cmp.Compare(k.protocol, o.protocol))
}

func (b *builder) build(name model.ServiceName, f *serviceBuilder) nodestatus.Service {
	at := map[portKey][]nft.InstalledFrontend{}
	if f.known != nil {
		for _, addr := range f.known.ClusterIPs {
			for _, p := range f.known.Ports {
				at[portKey{model.FamilyOf(addr), p.Name, p.Protocol}] = nil
			}
		}
	}
	for _, s := range f.installed {
		key := portKey{s.Match.Family, s.Service.Port, s.Match.Protocol}
		at[key] = append(at[key], s)
	}
	keys := slices.SortedFunc(maps.Keys(at), portKey.compare)
	out := nodestatus.Service{Namespace: name.Namespace, Name: name.Name, Ports: make([]nodestatus.Port, len(keys))}
	for i, key := range keys {
		p := portBuilder{builder: b, serviceBuilder: f, key: key, installed: at[key]}
		if out.Ports[i] = p.port(); b.unreached[key.family] {
			out.Ports[i].Frontends = []nodestatus.Frontend{}
		}
	}
	if b.query.Brief {
		out.Addresses = b.addresses(f, keys)
	}
	out.Problems, out.Contested = truncate(f.problems), truncate(f.contested)
	if f.known != nil {
		out.HintsField, out.WithoutSelector = f.known.HintsField, !f.known.Selects
		if f.known.Scheduler != model.SchedulerDefault {
			out.SchedulerField = "metadata.annotations[kube-vmap.io/scheduler]: " + f.known.Scheduler.String()
		}
	}
	return out
}

// addresses counts the endpoints of the ports' families. To explain each is expensive.
func (b *builder) addresses(f *serviceBuilder, ports []portKey) *nodestatus.Addresses {
	out := &nodestatus.Addresses{}
	seen := map[netip.Addr]struct{}{}
	for i := range f.installed {
		if s := &f.installed[i]; s.IsClusterIP() {
			for _, list := range [...][]netip.AddrPort{s.Cluster, s.Local} {
				for _, at := range list {
					seen[at.Addr()] = struct{}{}
				}
			}
		}
	}
	out.Used = len(seen)
	if f.known != nil {
		for i := range f.known.Slices {
			s := &f.known.Slices[i]
			if !slices.ContainsFunc(ports, func(k portKey) bool { return k.family == s.Family }) {
				continue
			}
			for k := range s.Endpoints {
				seen[s.Endpoints[k].Addr] = struct{}{}
			}
		}
	}
	out.All = len(seen)
	return out
}
