package build

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/hold"
	"kube-vmap/sync/follow/passivehealth"
)

// maxProblems is how many problems of one Service are reported, since the authors of
// Services could make documents of any size.
const maxProblems = 20

func (b *builder) problems() {
	for _, p := range b.snapshot.Problems {
		b.addOf(p)
	}
	b.conflicts()
	if !b.snapshot.KernelKnown && b.snapshot.Ready {
		b.doc.Problems = append(b.doc.Problems, problem("Node "+b.snapshot.Node.Name, nodestatus.ReasonUncertain, "",
			nodestatus.Args{}))
	}
	compare := func(a, b nodestatus.Problem) int {
		return strings.Compare(a.Object+" "+a.Text, b.Object+" "+b.Text)
	}
	slices.SortFunc(b.doc.Problems, compare)
	for _, f := range b.services {
		slices.SortFunc(f.problems, compare)
		slices.SortFunc(f.contested, compare)
	}
}

// A claimKey is an address that one Service holds and another one claims; for node ports the
// port.
type claimKey struct {
	loser, winner model.ServiceName
	addr          netip.Addr
	nodePort      uint16
}

// conflicts assigns lost claims to Services, once for all ports of an address.
func (b *builder) conflicts() {
	claims := map[claimKey][]model.Conflict{}
	for _, c := range b.snapshot.Conflicts {
		k := claimKey{loser: c.Loser.ServiceName, winner: c.Winner.ServiceName, addr: c.Match.Addr}
		if !c.Match.Addr.IsValid() {
			k.nodePort = c.Match.Port
		}
		if b.query.Matches(k.loser) || b.query.Matches(k.winner) {
			claims[k] = append(claims[k], c)
		}
	}
	for k, list := range claims {
		var matches []string
		for _, c := range list {
			matches = append(matches, c.Match.String())
		}
		slices.Sort(matches)
		matches = slices.Compact(matches)
		p := problem("Service "+k.loser.String(), model.ProblemConflict, b.fieldOf(list[0]), nodestatus.Args{
			Names: matches[:min(len(matches), maxMatches)], Number: len(matches), Message: k.winner.String(),
		})
		b.addProblem(k.loser, p)
		if b.query.Matches(k.winner) {
			f := b.service(k.winner)
			f.contested = append(f.contested, p)
		}
	}
}

func problem(object, reason, field string, a nodestatus.Args) nodestatus.Problem {
	text := (&nodestatus.Finding{Reason: reason, Args: a}).Sentence()
	return nodestatus.Problem{Object: object, Reason: reason, Text: text, Field: field, Args: a}
}

const maxMatches = 6

// fieldOf returns the field by which the loser of a conflict claims the address or node port.
func (b *builder) fieldOf(c model.Conflict) string {
	f := b.services[c.Loser.ServiceName]
	known := f != nil && f.known != nil
	switch {
	case !c.Match.Addr.IsValid() && known && f.known.HealthCheckNodePort == c.Match.Port:
		return "spec.healthCheckNodePort: " + strconv.Itoa(int(c.Match.Port))
	case !c.Match.Addr.IsValid():
		return "spec.ports[].nodePort: " + strconv.Itoa(int(c.Match.Port))
	case !known:
		return ""
	}
	for _, list := range []struct {
		field string
		addrs []netip.Addr
	}{
		{"spec.clusterIPs", f.known.ClusterIPs},
		{"status.loadBalancer.ingress[].ip", f.known.LoadBalancerIPs},
		{"spec.externalIPs", f.known.ExternalIPs},
	} {
		if slices.Contains(list.addrs, c.Match.Addr) {
			return list.field + ": " + c.Match.Addr.String()
		}
	}
	return ""
}

func truncate(list []nodestatus.Problem) []nodestatus.Problem {
	more := len(list) - maxProblems
	if more <= 0 {
		return list
	}
	list = slices.Clone(list[:maxProblems])
	last := &list[maxProblems-1]
	last.Text, last.Args = last.Text+fmt.Sprintf(" (and %d more)", more), nodestatus.Args{}
	return list
}

func (b *builder) addOf(p sync.Problem) {
	name := model.ServiceName{Namespace: p.Namespace, Name: p.Name}
	out := nodestatus.Problem{Object: p.Object.String(), Reason: p.Reason, Field: p.Field, Text: p.Text}
	if p.Kind == "Service" {
		name.Name, _, _ = strings.Cut(p.Name, ":") // may be "name:port"
		out.Object = "Service " + p.Namespace + "/" + p.Name
		b.addProblem(name, out)
	} else if p.Namespace == "" || b.query.Namespace == "" || b.query.Namespace == p.Namespace {
		b.doc.Problems = append(b.doc.Problems, out)
	}
}

func (b *builder) addProblem(name model.ServiceName, p nodestatus.Problem) {
	if b.query.Matches(name) {
		f := b.service(name)
		f.problems = append(f.problems, p)
	}
}

// addNoPortProblem adds the problem that there are endpoints, but none with the port.
func (b *portBuilder) addNoPortProblem(all []model.EndpointExplanation) {
	if len(all) == 0 || slices.ContainsFunc(all,
		func(c model.EndpointExplanation) bool { return c.Cluster != model.ReasonNoPort }) {
		return
	}
	if len(b.serviceBuilder.problems) >= maxProblems { // which is only counted
		b.serviceBuilder.problems = append(b.serviceBuilder.problems, nodestatus.Problem{})
		return
	}
	var offered []string
	for i := range b.known.Slices {
		if s := &b.known.Slices[i]; s.Family == b.key.family && len(s.Endpoints) > 0 {
			for _, p := range s.Ports {
				offered = append(offered, portText(p.Name, p.Protocol))
			}
		}
	}
	slices.Sort(offered)
	offered = slices.Compact(offered)
	if more := len(offered) - maxProblems; more > 0 {
		offered = append(offered[:maxProblems], fmt.Sprintf("%d more", more))
	}
	// The controller skips a port whose target has no name in the pod.
	field := nodestatus.FieldOf(nil, &nodestatus.Endpoint{Reason: nodestatus.ReasonNoPort, Manual: !b.known.Selects})
	name := model.ServicePortName{ServiceName: b.known.Name, Port: b.key.name, Protocol: b.key.protocol}
	b.serviceBuilder.problems = append(b.serviceBuilder.problems,
		problem("Service "+name.String(), nodestatus.ReasonNoPort, field, nodestatus.Args{
			Hit: len(all), Family: b.key.family.String(), Message: portText(b.key.name, b.key.protocol), Names: offered,
		}))
}

func portText(name string, p model.Protocol) string {
	if name == "" {
		return strings.ToUpper(p.String()) + " without a name"
	}
	return name + "/" + strings.ToUpper(p.String())
}

// serviceEndpoint is an endpoint of a Service, with the protocol in capitals.
type serviceEndpoint struct {
	service  model.ServiceName
	protocol string
	at       netip.AddrPort
}

// AddUnresponsive adds to a document with health which endpoints are unresponsive, or possibly so.
func AddUnresponsive(d *nodestatus.Document, r *passivehealth.Report) {
	h := &nodestatus.PassiveHealth{LateSeconds: int(r.Late.Seconds())}
	d.Health.PassiveHealth = h
	found := map[serviceEndpoint]*nodestatus.Unresponsive{}
	for i := range r.Endpoints {
		e := &r.Endpoints[i]
		if e.Possibly {
			h.Possibly++
		} else {
			h.Endpoints++
		}
		for _, s := range e.Services {
			name := model.ServiceName{Namespace: s.Namespace, Name: s.Name}
			found[serviceEndpoint{name, strings.ToUpper(e.Protocol.String()), e.Endpoint}] = &nodestatus.Unresponsive{
				Since: e.Since, Clients: e.Clients, Connections: e.Connections, Probes: e.Probes,
				Possibly: e.Possibly, ProbesWorked: e.ProbesWorked,
				NotAvoided: map[bool]string{true: nodestatus.MaxPercent}[slices.Contains(e.Avoiding, s)],
			}
		}
	}
	if len(found) == 0 {
		return
	}
	for s, p := range d.EachPort() {
		name := model.ServiceName{Namespace: s.Namespace, Name: s.Name}
		for n := range p.Endpoints {
			e := &p.Endpoints[n]
			e.Unresponsive = found[serviceEndpoint{name, p.Protocol, e.AddrPort()}]
			if u := e.Unresponsive; u != nil && u.NotAvoided != "" {
				e.Unresponsive = new(*u)
				e.Unresponsive.NotAvoided = whyNotAvoided(p, e)
			}
		}
	}
}

// whyNotAvoided returns why an unresponsive endpoint gets new connections, if it does.
func whyNotAvoided(p *nodestatus.Port, e *nodestatus.Endpoint) string {
	switch {
	case !e.Used():
		return ""
	case slices.ContainsFunc(p.Endpoints, func(o nodestatus.Endpoint) bool {
		return o.AddrPort() != e.AddrPort() && o.Used() && (o.LocalSlot != nil || e.Slot != nil || e.LocalSlot == nil)
	}):
		return nodestatus.MaxPercent
	}
	return nodestatus.LastEndpoint
}

func addWaiting(d *nodestatus.Document, list []hold.Waiting) {
	if len(list) == 0 {
		return
	}
	if d.Health != nil {
		d.Health.WaitingPorts = len(list)
	}
	byKey := map[string]*nodestatus.Waiting{}
	for _, w := range list {
		byKey[w.Key.String()] = &nodestatus.Waiting{Clients: w.Clients, Since: w.Since}
	}
	for _, p := range d.EachPort() {
		if len(p.Frontends) > 0 { // the ClusterIP is the first
			p.Waiting = byKey[p.Frontends[0].At(p.Protocol)]
		}
	}
}
