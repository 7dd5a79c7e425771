package status

import (
	"fmt"
	"slices"
	"strings"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// mostProblems is how many problems of one Service are told: whoever writes Services
// could make documents of any size.
const mostProblems = 20

// problems sorts what is wrong by the Service it is about.
func (b *builder) problems() {
	for _, p := range b.view.Problems {
		b.problem(p)
	}
	for _, c := range b.view.Conflicts {
		p := Problem{
			"Service " + c.Loser.String(), sync.ReasonConflict, c.Match.String() + " is held by Service " + c.Winner.String(),
		}
		b.tell(c.Loser.ServiceName, p)
		if b.query.wants(c.Winner.ServiceName) {
			f := b.found(c.Winner.ServiceName)
			f.contested = append(f.contested, p)
		}
	}
	if !b.view.KernelKnown && b.view.Ready {
		b.doc.Problems = append(b.doc.Problems, Problem{
			"Node " + b.view.Node.Name, ReasonUncertain,
			"a change failed; until the kernel has been read again, this is what it held before",
		})
	}
	compare := func(a, b Problem) int {
		return strings.Compare(a.Object+" "+a.Text, b.Object+" "+b.Text)
	}
	slices.SortFunc(b.doc.Problems, compare)
	for _, f := range b.of {
		slices.SortFunc(f.problems, compare)
		slices.SortFunc(f.contested, compare)
		f.problems, f.contested = first(f.problems), first(f.contested)
	}
}

// first are the problems that are told of many.
func first(list []Problem) []Problem {
	more := len(list) - mostProblems
	if more <= 0 {
		return list
	}
	list = slices.Clone(list[:mostProblems])
	list[mostProblems-1].Text += fmt.Sprintf(" (and %d more)", more)
	return list
}

// problem takes in one that an object has.
func (b *builder) problem(p sync.Problem) {
	name := model.ServiceName{Namespace: p.Namespace, Name: p.Name}
	if p.Kind == "Service" {
		name.Name, _, _ = strings.Cut(p.Name, ":") // it may be one of a port
		b.tell(name, Problem{"Service " + p.Namespace + "/" + p.Name, p.Reason, p.Text})
		return
	}
	if p.Namespace == "" || b.query.Namespace == "" || b.query.Namespace == p.Namespace {
		b.doc.Problems = append(b.doc.Problems, Problem{p.Object.String(), p.Reason, p.Text})
	}
}

// tell notes what is wrong with a Service, if that is asked for.
func (b *builder) tell(name model.ServiceName, p Problem) {
	if b.query.wants(name) {
		f := b.found(name)
		f.problems = append(f.problems, p)
	}
}

// tellWithoutPort tells that there are endpoints, but none with the port.
func (b *portBuilder) tellWithoutPort(all []model.EndpointExplanation) {
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
	if more := len(offered) - mostProblems; more > 0 {
		offered = append(offered[:mostProblems], fmt.Sprintf("%d more", more))
	}
	there := "none at all"
	if len(offered) > 0 {
		there = strings.Join(offered, ", ")
	}
	name := model.ServicePortName{ServiceName: b.known.Name, Port: b.key.name, Protocol: b.key.protocol}
	b.found.problems = append(b.found.problems, Problem{
		"Service " + name.String(), ReasonNoPort, fmt.Sprintf("none of its %d %s endpoints has the port %s; their EndpointSlices have %s",
			len(all), b.key.family, portText(b.key.name, b.key.protocol), there),
	})
}

// portText is a port's name and protocol; "TCP" of one without a name.
func portText(name string, p model.Protocol) string {
	if name == "" {
		return strings.ToUpper(p.String()) + " without a name"
	}
	return name + "/" + strings.ToUpper(p.String())
}
