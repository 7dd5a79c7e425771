package build

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft"
)

type portBuilder struct {
	*builder
	*serviceBuilder
	key       portKey
	installed []nft.InstalledFrontend // of the port only
}

func (b *portBuilder) port() nodestatus.Port {
	slices.SortFunc(b.installed, func(a, b nft.InstalledFrontend) int { // ClusterIPs first
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.Match.Compare(b.Match))
	})
	out := nodestatus.Port{
		Name: b.key.name, Protocol: strings.ToUpper(b.key.protocol.String()), Family: b.key.family.String(),
		Frontends: make([]nodestatus.Frontend, len(b.installed)),
		Endpoints: []nodestatus.Endpoint{},
	}
	for i := range b.installed {
		out.Frontends[i] = b.frontend(&b.installed[i])
	}
	out.Scheduler, out.AffinitySeconds = b.balancing()
	out.RetryRefused = slices.ContainsFunc(b.installed, func(s nft.InstalledFrontend) bool { return s.Pool.RetryRefused })
	for i := range b.elsewhere {
		e := &b.elsewhere[i]
		if key := (portKey{e.Match.Family, e.Service.Port, e.Match.Protocol}); key == b.key && len(b.installed) > 0 {
			out.Frontends = append(out.Frontends, b.frontend(&nft.InstalledFrontend{Frontend: e}))
		}
	}
	served := slices.ContainsFunc(b.installed, func(s nft.InstalledFrontend) bool { return s.Served() })
	if b.query.Brief && served {
		return out // to explain all endpoints is expensive
	}
	considered := b.considered()
	if !served {
		b.addNoPortProblem(considered)
		out.Rejected = b.rejected(considered)
	}
	if !b.query.Brief {
		list := b.listed(considered)
		out.Endpoints, out.NotListed = b.endpoints(list), len(considered)-len(list)
	}
	return out
}

// rejected returns why connections are refused; empty if they are not, or that is not known.
func (b *portBuilder) rejected(considered []model.EndpointExplanation) string {
	if b.known == nil || !slices.ContainsFunc(b.installed,
		func(s nft.InstalledFrontend) bool { return s.Verdict == model.VerdictReject }) {
		return ""
	}
	has := func(r model.Reason) bool {
		return slices.ContainsFunc(considered, func(c model.EndpointExplanation) bool { return c.Cluster == r })
	}
	switch {
	case has(model.ReasonNotReady):
		return nodestatus.ReasonNotReady
	case has(model.ReasonDrained):
		return nodestatus.ReasonDrained
	}
	return nodestatus.ReasonNoEndpoints
}

// balancing returns the scheduler and the seconds of session affinity, as programmed or,
// if nothing is programmed, as wanted.
func (b *portBuilder) balancing() (scheduler string, affinitySeconds int) {
	var s model.Scheduler
	var affinity time.Duration
	if len(b.installed) > 0 {
		pool := b.installed[0].Pool
		s, affinity = pool.Scheduler, pool.Affinity
	} else if b.known != nil {
		s, affinity = cmp.Or(b.known.Scheduler, b.snapshot.Scheduler, model.SchedulerRandom), b.known.Affinity
	}
	if s == model.SchedulerDefault {
		return "", 0 // there are no endpoints
	}
	return s.String(), int(affinity / time.Second)
}

func (b *portBuilder) frontend(s *nft.InstalledFrontend) nodestatus.Frontend {
	out := nodestatus.Frontend{
		Port: s.Match.Port, Kind: s.Kind.String(),
		Policy: nodestatus.Policies[s.Policy], Verdict: nodestatus.Verdicts[s.Verdict],
		Masquerade: nodestatus.Masquerades[s.Masquerade], Restricted: s.Restricted,
	}
	if s.Match.Addr.IsValid() {
		out.Address = s.Match.Addr.String()
	}
	out.Sources, out.Denied = prefixes(s.Sources), prefixes(s.Denied)
	if b.snapshot != nil {
		return out
	}
	if s.Kind == model.KindExternalIP {
		out.Kind = nodestatus.External
	}
	if s.Verdict == model.VerdictReject {
		out.Policy = ""
	}
	if !s.Served() {
		out.Masquerade = ""
	}
	return out
}

func prefixes(list []netip.Prefix) (out []string) {
	for _, p := range list {
		out = append(out, p.String())
	}
	slices.Sort(out)
	return out
}

type slotsOf map[netip.AddrPort]slots

type slots struct{ first, share int }

// newSlots returns the slots that a list of endpoints has, with shares unless each has one.
func newSlots(list, endpoints []netip.AddrPort, shares []uint16) slotsOf {
	several := shares != nil || len(list) != len(endpoints)
	out := make(slotsOf, len(list))
	for k, e := range list {
		s, twice := out[e]
		if !twice {
			s.first = k
		}
		if several {
			s.share++
		}
		out[e] = s
	}
	return out
}

// of returns the first slot of an endpoint, nil if it has none, and its share.
func (s slotsOf) of(e netip.AddrPort) (first *int, share int) {
	if k, found := s[e]; found {
		return &k.first, k.share
	}
	return nil, 0
}

func (b *portBuilder) considered() []model.EndpointExplanation {
	if b.known == nil {
		return nil
	}
	list := &b.unoffered[b.key.family]
	if slices.ContainsFunc(b.known.Slices, b.isIn) {
		list = new([]model.EndpointExplanation)
	}
	if *list == nil {
		port := model.ServicePortName{ServiceName: b.known.Name, Port: b.key.name, Protocol: b.key.protocol}
		var avoided []netip.AddrPort
		if len(b.installed) > 0 {
			avoided = b.installed[0].Pool.Avoided
		}
		*list = model.ExplainSelection(port, b.key.family, b.known.Slices, b.snapshot.Node, avoided, b.known.Hold > 0)
	}
	return *list
}

func (b *portBuilder) isIn(s model.EndpointSlice) bool {
	return slices.ContainsFunc(s.Ports, func(p model.EndpointPort) bool {
		return portKey{s.Family, p.Name, p.Protocol} == b.key
	})
}

// maxUnserved is how many endpoints are listed for the ports of a Service that they do not have, or
// that are not programmed: all of the first port that exceeds it, and then one of each port. No
// budget limits these.
const maxUnserved = 10_000

func (b *portBuilder) listed(considered []model.EndpointExplanation) (list []model.EndpointExplanation) {
	full := b.unserved >= maxUnserved
	for i := range considered {
		unserved := considered[i].Cluster == model.ReasonNoPort || len(b.installed) == 0
		if unserved {
			b.unserved++
		}
		if full && (!unserved || i == 0) {
			list = append(list, considered[i])
		}
	}
	if full {
		return list
	}
	return considered
}

func (b *portBuilder) endpoints(considered []model.EndpointExplanation) []nodestatus.Endpoint {
	var cluster, local slotsOf
	starts := map[netip.AddrPort]string{}
	if len(b.installed) > 0 && b.installed[0].IsClusterIP() {
		p := &b.installed[0]
		cluster, local = newSlots(p.Cluster, p.Pool.Cluster, p.Pool.ClusterShares),
			newSlots(p.Local, p.Pool.Local, p.Pool.LocalShares)
		for _, list := range [...]model.ListShares{p.Pool.List(true), p.Pool.List(false)} {
			for i, eighths := range list.Steps.Eighths {
				if eighths < model.FullStep {
					starts[list.Endpoints[i]] = fmt.Sprintf("1/%d", model.FullStep/eighths)
				}
			}
		}
	}
	out := make([]nodestatus.Endpoint, 0, len(considered))
	seen := make(map[netip.AddrPort]bool, len(cluster)+len(local))
	addSlots := func(e *nodestatus.Endpoint, at netip.AddrPort) {
		e.Slot, e.Share = cluster.of(at)
		e.LocalSlot, e.LocalShare = local.of(at)
		e.SlowStart = starts[at]
		seen[at] = true
	}
	byLocal := b.onlyLocal()
	for i := range considered {
		c := &considered[i]
		e := endpoint(c)
		if c.Cluster != model.ReasonDuplicate {
			addSlots(&e, c.AddrPort)
		}
		if e.Slot == nil && e.LocalSlot == nil {
			e.Reason = b.reason(c, byLocal)
		}
		out = append(out, e)
	}
	for _, list := range [...]slotsOf{cluster, local} {
		for at := range list {
			if !seen[at] {
				e := nodestatus.Endpoint{Address: at.Addr().String(), Port: at.Port()}
				addSlots(&e, at)
				out = append(out, e)
			}
		}
	}
	if len(out) > len(considered) { // which are sorted
		slices.SortStableFunc(out, func(a, b nodestatus.Endpoint) int { return a.AddrPort().Compare(b.AddrPort()) })
	}
	return out
}

// onlyLocal reports whether no frontend uses the endpoints of the whole cluster.
func (b *portBuilder) onlyLocal() bool {
	if len(b.installed) == 0 {
		return b.known.InternalPolicy == model.PolicyLocal
	}
	return len(b.installed) == 1 && b.installed[0].IsClusterIP() && b.installed[0].Policy == model.PolicyLocal
}

// reason returns why an endpoint without a slot has none: the installed pool may have it.
func (b *portBuilder) reason(c *model.EndpointExplanation, byLocal bool) string {
	r := c.Cluster
	if byLocal {
		r = c.Local
	}
	if r != model.ReasonNone {
		return r.String()
	}
	if len(b.installed) > 0 {
		p := b.installed[0].Pool
		switch {
		case slices.Contains(p.Avoided, c.AddrPort):
			return nodestatus.ReasonAvoided
		case slices.Contains(p.Cluster, c.AddrPort) || slices.Contains(p.Local, c.AddrPort):
			return nodestatus.ReasonBusy
		}
	}
	return nodestatus.ReasonNotProgrammed
}

func endpoint(c *model.EndpointExplanation) nodestatus.Endpoint {
	weight := int(c.Weight)
	if weight == 1 {
		weight = 0
	}
	return nodestatus.Endpoint{
		Address: c.AddrPort.Addr().String(), Port: c.AddrPort.Port(), Node: c.Node, Weight: weight,
		Conditions: &nodestatus.Conditions{Ready: c.Ready, Serving: c.Serving, Terminating: c.Terminating},
		ZoneHints:  names(c.ZoneHints), NodeHints: names(c.NodeHints), Manual: !c.Managed,
	}
}

func names(s model.NameSet) []string {
	if s == "" {
		return nil
	}
	return strings.Split(string(s), ",")
}
