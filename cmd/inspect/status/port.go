package status

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// portBuilder makes what a document says of one port of a Service.
type portBuilder struct {
	*builder
	*found
	key      portKey
	standing []nft.InstalledFrontend // of the port only
}

// port is what is known of the port.
func (b *portBuilder) port() Port {
	slices.SortFunc(b.standing, compareStanding)
	out := Port{
		Name: b.key.name, Protocol: strings.ToUpper(b.key.protocol.String()), Family: b.key.family.String(),
		Frontends: make([]Frontend, len(b.standing)),
		Endpoints: []Endpoint{},
	}
	for i := range b.standing {
		out.Frontends[i] = b.frontend(&b.standing[i])
	}
	out.Scheduler, out.AffinitySeconds = b.balancing()
	served := slices.ContainsFunc(b.standing, func(s nft.InstalledFrontend) bool { return s.Served() })
	if b.query.Brief && served {
		return out // to consider all endpoints is what costs
	}
	considered := b.considered()
	if !served {
		b.tellWithoutPort(considered)
	}
	if !b.query.Brief {
		out.Endpoints = b.endpoints(considered)
	}
	return out
}

// compareStanding orders frontends of one port: that of the ClusterIP first.
func compareStanding(a, b nft.InstalledFrontend) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.Match.Compare(b.Match))
}

// balancing is how an endpoint is chosen, and for how many seconds clients keep it:
// as it is programmed, or else as it is meant to be.
func (b *portBuilder) balancing() (scheduler string, affinity int) {
	var s model.Scheduler
	var sticky time.Duration
	if len(b.standing) > 0 {
		pool := b.standing[0].Pool
		s, sticky = pool.Scheduler, pool.Affinity
	} else if b.known != nil {
		s, sticky = cmp.Or(b.known.Scheduler, b.view.Scheduler, model.SchedulerRandom), b.known.Affinity
	}
	if s == model.SchedulerDefault {
		return "", 0 // there is nothing to choose from
	}
	return s.String(), int(sticky / time.Second)
}

// frontend is what is said of an address and port.
func (b *portBuilder) frontend(s *nft.InstalledFrontend) Frontend {
	out := Frontend{
		Port: s.Match.Port, Kind: s.Kind.String(),
		Policy: policies[s.Policy], Verdict: verdicts[s.Verdict], Masquerade: masquerades[s.Masquerade],
		Restricted: s.Restricted,
	}
	if s.Match.Addr.IsValid() {
		out.Address = s.Match.Addr.String()
	}
	for _, p := range s.Sources {
		out.Sources = append(out.Sources, p.String())
	}
	slices.Sort(out.Sources)
	if b.view != nil {
		return out
	}
	if s.Kind == model.KindExternalIP {
		out.Kind = External
	}
	if s.Verdict == model.VerdictReject {
		out.Policy = ""
	}
	if !s.Served() {
		out.Masquerade = ""
	}
	return out
}

// The words for what frontends do.
var (
	policies    = [...]string{model.PolicyCluster: "Cluster", model.PolicyLocal: "Local"}
	verdicts    = [...]string{model.VerdictBalance: VerdictBalance, model.VerdictReject: VerdictReject, model.VerdictDrop: VerdictDrop}
	masquerades = [...]string{model.MasqueradeNever: "never", model.MasqueradeOffPod: "off-pod", model.MasqueradeAlways: "always"}
)

// slotsOf tells where endpoints are among those in slots.
type slotsOf map[netip.AddrPort]int

func newSlots(list []netip.AddrPort) slotsOf {
	out := make(slotsOf, len(list))
	for k, e := range list {
		if _, twice := out[e]; !twice {
			out[e] = k
		}
	}
	return out
}

// of is the slot of an endpoint, nil if it has none.
func (s slotsOf) of(e netip.AddrPort) *int {
	if k, found := s[e]; found {
		return &k
	}
	return nil
}

// considered are the endpoints that the slices name.
func (b *portBuilder) considered() []model.EndpointExplanation {
	if b.known == nil {
		return nil
	}
	port := model.ServicePortName{ServiceName: b.known.Name, Port: b.key.name, Protocol: b.key.protocol}
	return model.ExplainSelection(port, b.key.family, b.known.Slices, b.view.Node)
}

// endpoints are those that the slices name, and those that the kernel has.
func (b *portBuilder) endpoints(considered []model.EndpointExplanation) []Endpoint {
	var cluster, local slotsOf
	if len(b.standing) > 0 && b.standing[0].OwnsPool() {
		cluster, local = newSlots(b.standing[0].Cluster), newSlots(b.standing[0].Local)
	}
	out := make([]Endpoint, 0, len(considered))
	seen := make(map[netip.AddrPort]bool, len(cluster)+len(local))
	byLocal := b.onlyLocal()
	for i := range considered {
		c := &considered[i]
		e := endpoint(c)
		if c.Cluster != model.ReasonDuplicate {
			e.Slot, e.LocalSlot = cluster.of(c.AddrPort), local.of(c.AddrPort)
			seen[c.AddrPort] = true
		}
		if e.Slot == nil && e.LocalSlot == nil {
			e.Reason = reason(c, byLocal)
		}
		out = append(out, e)
	}
	for _, list := range [...]slotsOf{cluster, local} {
		for at := range list {
			if !seen[at] {
				seen[at] = true
				out = append(out, Endpoint{
					Address: at.Addr().String(), Port: at.Port(), Slot: cluster.of(at), LocalSlot: local.of(at),
				})
			}
		}
	}
	return sortEndpoints(out, len(considered))
}

// sortEndpoints sorts by address, if some were added to those that are sorted.
func sortEndpoints(list []Endpoint, sorted int) []Endpoint {
	if len(list) == sorted {
		return list
	}
	slices.SortStableFunc(list, func(a, b Endpoint) int { return a.addrPort().Compare(b.addrPort()) })
	return list
}

// onlyLocal reports whether nobody uses the endpoints of the whole cluster.
func (b *portBuilder) onlyLocal() bool {
	if len(b.standing) == 0 {
		return b.known.InternalPolicy == model.PolicyLocal
	}
	return len(b.standing) == 1 && b.standing[0].OwnsPool() && b.standing[0].Policy == model.PolicyLocal
}

// reason is why an endpoint without a slot has none.
func reason(c *model.EndpointExplanation, byLocal bool) string {
	r := c.Cluster
	if byLocal {
		r = c.Local
	}
	if r == model.ReasonNone {
		return ReasonNotProgrammed
	}
	return r.String()
}

// endpoint is what slices say of an endpoint.
func endpoint(c *model.EndpointExplanation) Endpoint {
	return Endpoint{
		Address: c.AddrPort.Addr().String(), Port: c.AddrPort.Port(), Node: c.Node,
		Conditions: &Conditions{Ready: c.Ready, Serving: c.Serving, Terminating: c.Terminating},
		ZoneHints:  names(c.ZoneHints), NodeHints: names(c.NodeHints),
	}
}

// names are those of a set.
func names(s model.NameSet) []string {
	if s == "" {
		return nil
	}
	return strings.Split(string(s), ",")
}
