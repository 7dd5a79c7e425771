package nft

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"kube-vmap/model"
)

// Installed returns the frontends of the tables, sorted by match: what [Ruleset.Installed]
// returns for the state that made them, as far as it follows from elements.
//
//	services 10.96.0.10:80/tcp : goto cluster-2 "shop/web:http"  ClusterIP, masquerade off-pod
//	  endpoints-0, endpoints-1, or the names of sticky chains    its slots
//	node-ports tcp/30080 : goto external-2 "shop/web:http"       NodePort, policy Cluster
//	  node-port-service-ips, node-port-service-ports             the owner of its pool
//	no-endpoint-services ... : drop                              policy Local, no endpoint here
//
// Every external address is an ExternalIP here, also a load balancer's. The policy of a
// rejected frontend and the masquerading of one without endpoints do not follow from
// elements, and are zero. The name of the port may be cut, since a comment has at most 127
// bytes.
func (t Tables) Installed() []InstalledFrontend {
	r := tableReader{slots: slotsIn(t), at: map[model.Match]*model.Frontend{}, pools: map[model.Match]*model.Pool{}}
	for f, table := range t {
		if table == nil {
			continue
		}
		r.family, r.table = model.Family(f), table
		r.read()
	}
	return r.all()
}

// Dispatches reports whether packets of a family reach the elements of its table.
func (t Tables) Dispatches(f model.Family) bool {
	dispatch := ChainID{Family: f, Kind: ChainDispatch}
	return t[f] != nil && !t[f].Dormant && len(t[f].Chains[dispatch.Name()].Rules) > 0
}

// NodeAddrs returns the addresses that serve node ports.
func (t Tables) NodeAddrs() []netip.Addr {
	var out []netip.Addr
	for f := range t {
		r := tableReader{family: model.Family(f), table: t[f]}
		for _, e := range r.elements(SetNodeIPs) {
			out = append(out, e.Key.Addr)
		}
	}
	return out
}

// A tableReader has the frontends that were read so far, and the current table.
type tableReader struct {
	slots    map[model.Match]slots
	at       map[model.Match]*model.Frontend
	pools    map[model.Match]*model.Pool
	family   model.Family
	table    *Table
	owners   map[netip.Addr]bool // ClusterIPs
	rewrites map[model.Match]model.Match
}

func (r *tableReader) elements(kind SetKind) []Element {
	if r.table == nil {
		return nil
	}
	return r.table.Sets[SetID{Family: r.family, Kind: kind}.Name()].Elements
}

func (r *tableReader) read() {
	r.owners, r.rewrites = map[netip.Addr]bool{}, map[model.Match]model.Match{}
	for _, e := range r.elements(SetClusterIPs) {
		r.owners[e.Key.Addr] = true
	}
	r.readRewrites()
	for _, kind := range [...]SetKind{SetServices, SetNodePorts} {
		for i, list := 0, r.elements(kind); i < len(list); i++ {
			r.served(&list[i])
		}
	}
	for _, kind := range [...]SetKind{SetLocalServices, SetLocalNodePorts} {
		for _, e := range r.elements(kind) {
			if f := r.at[e.Key.match(r.family)]; f != nil && f.Pool != nil {
				scheduled(f.Pool, e.Value.Chain)
			}
		}
	}
	for _, kind := range [...]SetKind{SetNoEndpointServices, SetNoEndpointNodePorts} {
		for i, list := 0, r.elements(kind); i < len(list); i++ {
			r.unserved(&list[i])
		}
	}
	r.readSources()
}

// readRewrites reads the ClusterIP and port of other addresses.
func (r *tableReader) readRewrites() {
	for _, e := range slices.Concat(r.elements(SetServiceIPs), r.elements(SetNodePortServiceIPs)) {
		m := e.Key.match(r.family)
		to := m
		to.Addr = e.Value.Endpoint.Addr()
		r.rewrites[m] = to
	}
	for _, e := range r.elements(SetNodePortServicePorts) {
		m := e.Key.match(r.family)
		to := r.rewrites[m]
		to.Port = e.Value.Endpoint.Port()
		r.rewrites[m] = to
	}
}

// frontend returns the frontend of an element, which is added if it is new.
func (r *tableReader) frontend(e *Element) *model.Frontend {
	m := e.Key.match(r.family)
	f := r.at[m]
	if f == nil {
		f = &model.Frontend{Match: m, Kind: model.KindExternalIP, Service: parseComment(e.Comment, m.Protocol)}
		switch {
		case !m.Addr.IsValid():
			f.Kind = model.KindNodePort
		case r.owners[m.Addr]:
			f.Kind = model.KindClusterIP
		}
		r.at[m] = f
	}
	return f
}

func (r *tableReader) served(e *Element) {
	if e.Value.Verdict != VerdictGoto || e.Value.Chain.Kind >= chainKinds {
		return // of another program
	}
	f, to := r.frontend(e), e.Value.Chain
	switch to.Kind {
	case ChainExternal:
		f.Masquerade = model.MasqueradeAlways
		f.Kind = external(f.Kind)
	case ChainExternalLocal:
		f.Policy = model.PolicyLocal
		f.Kind = external(f.Kind)
	case ChainMasquerade:
		f.Masquerade = model.MasqueradeAlways
	case ChainCluster:
		f.Masquerade = model.MasqueradeOffPod
	}
	if to.Local {
		f.Policy = model.PolicyLocal
	}
	key := f.Match
	if !f.IsClusterIP() {
		key = r.rewrites[f.Match]
	}
	f.Pool = r.pool(key)
	scheduled(f.Pool, to)
}

// scheduled notes how a chain picks from the pool, and how long clients are remembered. A
// single endpoint is picked at random, whatever the scheduler.
func scheduled(p *model.Pool, by ChainID) {
	if by.Seconds > 0 {
		p.Affinity = time.Duration(by.Seconds) * time.Second
	}
	if s := methodSchema[by.Method].scheduler; s != model.SchedulerRandom || p.Scheduler == model.SchedulerDefault {
		p.Scheduler = s
	}
}

// external is the kind of a frontend that maps to the pool of another one.
func external(k model.Kind) model.Kind {
	if k == model.KindClusterIP {
		return model.KindExternalIP
	}
	return k
}

func (r *tableReader) unserved(e *Element) {
	f := r.frontend(e)
	switch {
	case e.Value.Verdict == VerdictDrop:
		f.Verdict, f.Policy = model.VerdictDrop, model.PolicyLocal
	case e.Value.Chain.Kind == ChainHold && f.Pool != nil: // it has endpoints
	case e.Value.Chain.Kind == ChainHold:
		f.Verdict = model.VerdictHold
	default:
		f.Verdict = model.VerdictReject
	}
	if f.IsClusterIP() {
		f.Pool = r.pool(f.Match) // other addresses may still map to it
	}
}

func (r *tableReader) readSources() {
	if r.table == nil {
		return
	}
	for _, e := range slices.Concat(r.elements(SetRestricted), r.elements(SetRestrictedNodePorts)) {
		if f := r.at[e.Key.match(r.family)]; f != nil {
			f.Restricted = true
		}
	}
	for bits := 0; bits <= families[r.family].bits(); bits++ {
		id := SetID{Family: r.family, Slot: uint16(bits)}
		for id.Kind = SetAllowedSources; id.Kind <= SetDeniedSources; id.Kind++ {
			for _, e := range r.table.Sets[id.Name()].Elements {
				m := e.Key.match(r.family)
				if m.Addr.IsUnspecified() {
					m.Addr = netip.Addr{} // a node port
				}
				switch f := r.at[m]; {
				case f == nil:
				case id.Kind == SetAllowedSources:
					f.Sources = append(f.Sources, e.Key.SourcePrefix())
				default:
					f.Denied = append(f.Denied, e.Key.SourcePrefix())
				}
			}
		}
	}
	for _, f := range r.at {
		slices.SortFunc(f.Sources, comparePrefixes)
		slices.SortFunc(f.Denied, comparePrefixes)
	}
}

// pool returns the pool of a ClusterIP, with the endpoints of its slots.
func (r *tableReader) pool(key model.Match) *model.Pool {
	p := r.pools[key]
	if p != nil {
		return p
	}
	p = &model.Pool{Key: key}
	r.pools[key] = p
	s := r.slots[key]
	p.Cluster, p.ClusterShares = endpointsOf(s.cluster)
	p.Local, p.LocalShares = endpointsOf(s.local)
	return p
}

// endpointsOf returns the endpoints in slots as a pool has them: sorted, each once, with how
// many slots each has, unless all have one.
func endpointsOf(slots []netip.AddrPort) (endpoints []netip.AddrPort, shares []uint16) {
	for _, e := range slices.SortedFunc(slices.Values(slots), netip.AddrPort.Compare) {
		if last := len(endpoints) - 1; last >= 0 && endpoints[last] == e {
			shares[last]++
			continue
		}
		endpoints, shares = append(endpoints, e), append(shares, 1)
	}
	if len(endpoints) == len(slots) {
		return endpoints, nil
	}
	return endpoints, shares
}

// all returns the frontends with their slots.
func (r *tableReader) all() []InstalledFrontend {
	out := make([]InstalledFrontend, 0, len(r.at))
	for _, f := range r.at {
		switch {
		case f.Pool == nil:
			f.Pool = &model.Pool{Key: f.Match} // without endpoints
		case f.Pool.Scheduler == model.SchedulerMaglev:
			f.Pool.ClusterShares, f.Pool.LocalShares = nil, nil // its table decides
		}
		s := InstalledFrontend{Frontend: f}
		if f.IsClusterIP() {
			slots := r.slots[f.Match]
			s.Cluster, s.Local = slots.cluster, slots.local
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b InstalledFrontend) int { return a.Match.Compare(b.Match) })
	return out
}

// parseComment returns the Service port that a comment names, for display. The kernel has no
// more of the Service than this text; nothing is decided by it.
func parseComment(name string, p model.Protocol) model.ServicePortName {
	out := model.ServicePortName{Protocol: p}
	out.Namespace, out.Name, _ = strings.Cut(name, "/")
	out.Name, out.Port, _ = strings.Cut(out.Name, ":")
	return out
}

// CountsConnections reports whether the tables count connections.
func (t Tables) CountsConnections() bool {
	for f, table := range t {
		if table == nil {
			continue
		}
		if _, counts := table.Sets[SetID{Family: model.Family(f), Kind: SetConnections}.Name()]; counts {
			return true
		}
	}
	return false
}

// An InstalledFrontend is a frontend as it is in the tables. It is read-only.
type InstalledFrontend struct {
	*model.Frontend
	// Cluster and Local are the endpoints by slot, if the frontend owns a pool. With shares
	// and with Maglev an endpoint has several slots.
	Cluster, Local []netip.AddrPort
}

// Installed returns all frontends of the state, sorted by match. It copies no endpoints and so
// costs little. Later commits do not change the result.
func (r *Ruleset) Installed() []InstalledFrontend {
	out := make([]InstalledFrontend, 0, r.frontends.len)
	for p := range r.frontends.all() {
		out = append(out, InstalledFrontend{&p.Frontend, p.slots.list(false), p.slots.list(true)})
	}
	return out
}

// ServiceCIDRs returns the ranges of ClusterIPs, without host ranges.
func (r *Ruleset) ServiceCIDRs() []netip.Prefix { return r.cidrs }

// NodeAddrs returns the addresses that serve node ports.
func (r *Ruleset) NodeAddrs() []netip.Addr { return r.nodeAddrs }
