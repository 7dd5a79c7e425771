package build

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/model"
	"kube-vmap/sync"
)

// maxProblems is how many problems of one Service are reported, since the authors of
// Services could make documents of any size.
const maxProblems = 20

// problems assigns problems to Services.
func (b *builder) problems() {
	for _, p := range b.snapshot.Problems {
		b.problem(p)
	}
	b.conflicts()
	if !b.snapshot.KernelKnown && b.snapshot.Ready {
		b.doc.Problems = append(b.doc.Problems, status.Problem{
			Object: "Node " + b.snapshot.Node.Name, Reason: status.ReasonUncertain,
			Text: "a change failed; this is the state before it, until the kernel has been read again",
		})
	}
	compare := func(a, b status.Problem) int {
		return strings.Compare(a.Object+" "+a.Text, b.Object+" "+b.Text)
	}
	slices.SortFunc(b.doc.Problems, compare)
	for _, f := range b.services {
		slices.SortFunc(f.problems, compare)
		slices.SortFunc(f.contested, compare)
		f.problems, f.contested = truncate(f.problems), truncate(f.contested)
	}
}

// A claimKey is an address that one Service holds and another one claims; for node ports the
// port.
type claimKey struct {
	loser, winner model.ServiceName
	addr          netip.Addr
	nodePort      uint16
}

// conflicts assigns what Services claim in vain, once for all ports of an address.
func (b *builder) conflicts() {
	matches := map[claimKey][]string{}
	fields := map[claimKey]string{}
	for _, c := range b.snapshot.Conflicts {
		k := claimKey{loser: c.Loser.ServiceName, winner: c.Winner.ServiceName, addr: c.Match.Addr}
		if !c.Match.Addr.IsValid() {
			k.nodePort = c.Match.Port
		}
		if !b.query.Matches(k.loser) && !b.query.Matches(k.winner) {
			continue
		}
		if matches[k] == nil {
			fields[k] = b.fieldOf(c)
		}
		matches[k] = append(matches[k], c.Match.String())
	}
	for k, list := range matches {
		p := status.Problem{
			Object: "Service " + k.loser.String(), Reason: model.ProblemConflict, Field: fields[k],
			Text: heldText(list) + " held by Service " + k.winner.String(),
		}
		b.addProblem(k.loser, p)
		if b.query.Matches(k.winner) {
			f := b.service(k.winner)
			f.contested = append(f.contested, p)
		}
	}
}

// maxMatches is how many addresses and ports one problem names.
const maxMatches = 6

// heldText returns "203.0.113.1:80/tcp is" or "203.0.113.1:80/tcp, 203.0.113.1:80/udp are".
func heldText(list []string) string {
	slices.Sort(list)
	list = slices.Compact(list)
	verb := " is"
	if len(list) > 1 {
		verb = " are"
	}
	return status.JoinFirst(list, len(list), maxMatches) + verb
}

// fieldOf returns the field by which the loser of a conflict claims the address or node port.
func (b *builder) fieldOf(c model.Conflict) string {
	if !c.Match.Addr.IsValid() {
		return "spec.ports[].nodePort: " + strconv.Itoa(int(c.Match.Port))
	}
	f := b.services[c.Loser.ServiceName]
	if f == nil || f.known == nil {
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

// truncate returns the first problems of a list.
func truncate(list []status.Problem) []status.Problem {
	more := len(list) - maxProblems
	if more <= 0 {
		return list
	}
	list = slices.Clone(list[:maxProblems])
	list[maxProblems-1].Text += fmt.Sprintf(" (and %d more)", more)
	return list
}

// problem adds a problem of an object.
func (b *builder) problem(p sync.Problem) {
	name := model.ServiceName{Namespace: p.Namespace, Name: p.Name}
	if p.Kind == "Service" {
		name.Name, _, _ = strings.Cut(p.Name, ":") // may be "name:port"
		b.addProblem(name, status.Problem{Object: "Service " + p.Namespace + "/" + p.Name, Reason: p.Reason, Text: p.Text})
		return
	}
	if p.Namespace == "" || b.query.Namespace == "" || b.query.Namespace == p.Namespace {
		b.doc.Problems = append(b.doc.Problems, status.Problem{Object: p.Object.String(), Reason: p.Reason, Text: p.Text})
	}
}

// addProblem adds a problem of a Service, if the query asks for the Service.
func (b *builder) addProblem(name model.ServiceName, p status.Problem) {
	if b.query.Matches(name) {
		f := b.service(name)
		f.problems = append(f.problems, p)
	}
}

// addNoPortProblem adds the problem that there are endpoints, but none with the port.
func (b *portBuilder) addNoPortProblem(all []model.EndpointExplanation) {
	if len(all) == 0 || slices.ContainsFunc(all, func(c model.EndpointExplanation) bool { return c.Cluster != model.ReasonNoPort }) {
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
	ports := "none at all"
	if len(offered) > 0 {
		ports = strings.Join(offered, ", ")
	}
	name := model.ServicePortName{ServiceName: b.known.Name, Port: b.key.name, Protocol: b.key.protocol}
	b.serviceBuilder.problems = append(b.serviceBuilder.problems, status.Problem{
		Object: "Service " + name.String(), Reason: status.ReasonNoPort,
		Text: fmt.Sprintf("none of its %d %s endpoints has the port %s; their EndpointSlices have %s",
			len(all), b.key.family, portText(b.key.name, b.key.protocol), ports),
		Field: b.portField(),
	})
}

// portField returns the field by which slices lack a port: the controller skips a port whose
// target has no name in the pod.
func (b *portBuilder) portField() string {
	if b.known.Selects {
		return "spec.ports[].targetPort"
	}
	return "ports[].name of the EndpointSlice"
}

// portText returns a port's name and protocol.
func portText(name string, p model.Protocol) string {
	if name == "" {
		return strings.ToUpper(p.String()) + " without a name"
	}
	return name + "/" + strings.ToUpper(p.String())
}
