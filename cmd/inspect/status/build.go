package status

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// FromView makes a document of what the loop knows. Nothing is counted in it yet,
// see [Document.Count].
func FromView(v *sync.Snapshot, q Query, now time.Time) *Document {
	b := newBuilder(q, FromDaemon, now)
	b.view = v
	b.doc.Node, b.doc.Ready = v.Node.Name, v.Ready
	b.nodeAddrs(v.NodeAddrs)
	for _, p := range v.PodRanges {
		if p.IsValid() {
			b.doc.PodRanges = append(b.doc.PodRanges, p.String())
		}
	}
	b.take(v.Installed)
	for i := range v.Services {
		if name := v.Services[i].Name; q.wants(name) {
			b.found(name).known = &v.Services[i]
		}
	}
	b.problems()
	return b.document()
}

// FromTables makes a document of what the kernel holds.
func FromTables(t nft.Tables, q Query, now time.Time) *Document {
	b := newBuilder(q, FromKernel, now)
	b.nodeAddrs(t.NodeAddrs())
	b.take(t.Installed())
	return b.document()
}

// wants reports whether the query asks for the Service.
func (q Query) wants(n model.ServiceName) bool {
	return (q.Namespace == "" || q.Namespace == n.Namespace) && (q.Name == "" || q.Name == n.Name)
}

// builder makes a document. Frontends are sorted by the Service they are of, and
// everything else is done Service by Service.
type builder struct {
	query Query
	doc   *Document
	view  *sync.Snapshot // nil where only the kernel is known
	of    map[model.ServiceName]*found
	seen  map[netip.Addr]struct{} // of one Service after the other
}

// found is what is known of one Service.
type found struct {
	known     *model.ServiceSnapshot // nil if the source does not know it, or its objects are not known
	standing  []nft.InstalledFrontend
	problems  []Problem
	contested []Problem
}

func newBuilder(q Query, source string, now time.Time) *builder {
	doc := &Document{Source: source, Time: now, Services: []Service{}}
	return &builder{query: q, doc: doc, of: map[model.ServiceName]*found{}, seen: map[netip.Addr]struct{}{}}
}

func (b *builder) nodeAddrs(addrs []netip.Addr) {
	for _, a := range addrs {
		b.doc.NodeAddresses = append(b.doc.NodeAddresses, a.String())
	}
}

// found is what is known of the Service so far.
func (b *builder) found(name model.ServiceName) *found {
	f := b.of[name]
	if f == nil {
		f = &found{}
		b.of[name] = f
	}
	return f
}

// take sorts frontends by Service.
func (b *builder) take(all []nft.InstalledFrontend) {
	for _, s := range all {
		if name := s.Service.ServiceName; b.query.wants(name) {
			f := b.found(name)
			f.standing = append(f.standing, s)
		}
	}
}

// document is the document of all that was found.
func (b *builder) document() *Document {
	names := make([]model.ServiceName, 0, len(b.of))
	for name := range b.of {
		names = append(names, name)
	}
	slices.SortFunc(names, model.ServiceName.Compare)
	b.doc.Services = make([]Service, len(names))
	for i, name := range names {
		b.doc.Services[i] = b.service(name, b.of[name])
	}
	return b.doc
}

// portKey is which port of a Service, in which family.
type portKey struct {
	family   model.Family
	name     string
	protocol model.Protocol
}

func (k portKey) compare(o portKey) int {
	return cmp.Or(cmp.Compare(k.family, o.family), cmp.Compare(k.name, o.name), cmp.Compare(k.protocol, o.protocol))
}

// service is what is known of a Service.
func (b *builder) service(name model.ServiceName, f *found) Service {
	at := map[portKey][]nft.InstalledFrontend{}
	if f.known != nil {
		for _, addr := range f.known.ClusterIPs {
			for _, p := range f.known.Ports {
				at[portKey{model.FamilyOf(addr), p.Name, p.Protocol}] = nil
			}
		}
	}
	for _, s := range f.standing {
		key := portKey{s.Match.Family, s.Service.Port, s.Match.Protocol}
		at[key] = append(at[key], s)
	}
	keys := make([]portKey, 0, len(at))
	for key := range at {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, portKey.compare)
	out := Service{Namespace: name.Namespace, Name: name.Name, Ports: make([]Port, len(keys))}
	for i, key := range keys {
		p := portBuilder{builder: b, key: key, found: f, standing: at[key]}
		out.Ports[i] = p.port()
	}
	if b.query.Brief {
		out.Addresses = b.addresses(f, keys)
	}
	out.Problems, out.Contested = f.problems, f.contested
	return out
}

// addresses counts endpoints of the ports' families without saying anything of each,
// which is what costs.
func (b *builder) addresses(f *found, ports []portKey) *Addresses {
	out := &Addresses{}
	clear(b.seen)
	for i := range f.standing {
		if s := &f.standing[i]; s.OwnsPool() {
			for _, list := range [...][]netip.AddrPort{s.Cluster, s.Local} {
				for _, at := range list {
					b.seen[at.Addr()] = struct{}{}
				}
			}
		}
	}
	out.Used = len(b.seen)
	if f.known != nil {
		for i := range f.known.Slices {
			s := &f.known.Slices[i]
			if !slices.ContainsFunc(ports, func(k portKey) bool { return k.family == s.Family }) {
				continue
			}
			for k := range s.Endpoints {
				b.seen[s.Endpoints[k].Addr] = struct{}{}
			}
		}
	}
	out.All = len(b.seen)
	return out
}
