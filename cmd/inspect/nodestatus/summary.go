package nodestatus

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kube-vmap/model"
)

// Severity returns the severity of the Service's state. Load balancers avoid a node without
// endpoints; pods on it cannot. A Service may sleep until a client waits for it.
func (s *Service) Severity() string {
	state := s.State()
	isProblem := func(p Port) bool {
		return state == ReasonHeld && p.Waiting != nil ||
			state == ReasonNoneLocal && slices.ContainsFunc(p.Frontends, func(f Frontend) bool {
				return f.Verdict == VerdictDrop && f.Kind == model.KindClusterIP.String()
			})
	}
	if slices.ContainsFunc(s.Ports, isProblem) {
		return SeverityProblem
	}
	return SeverityOf(state)
}

// Summary counts the Services and problems of a document. A Service counts once, however
// many ports or problems it has. Problems of other objects are counted separately, since
// no row of a list of Services shows them.
type Summary struct {
	Services int `json:"services"`
	Problems int `json:"problems"` // Services of severity Problem
	Notices  int `json:"notices"`  // Services of severity Notice
	Others   int `json:"others"`   // problems of other objects
}

// Count counts a Service by its severity.
func (s *Summary) Count(severity string) {
	s.Services++
	switch severity {
	case SeverityProblem:
		s.Problems++
	case SeverityNotice:
		s.Notices++
	}
}

// Summary returns the summary of the document.
func (d *Document) Summary() (out Summary) {
	for i := range d.Problems {
		if SeverityOf(d.Problems[i].Reason) == SeverityProblem {
			out.Others++
		}
	}
	for i := range d.Services {
		out.Count(d.Services[i].Severity())
	}
	return out
}

// FirstProblem returns the first problem of the Service in one line, with the number of
// further ones; empty if it has none.
func (s *Service) FirstProblem() string {
	if len(s.Problems) == 0 {
		return ""
	}
	text := strings.ReplaceAll(s.Problems[0].Text, "\n", "; ")
	if more := len(s.Problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// EndpointCount counts the endpoints of the Service, over all ports and both families.
func (s *Service) EndpointCount() Addresses {
	if s.Addresses != nil {
		return *s.Addresses
	}
	used := map[string]bool{}
	for i := range s.Ports {
		for k := range s.Ports[i].Endpoints {
			e := &s.Ports[i].Endpoints[k]
			if e.Reason == ReasonGone {
				continue
			}
			used[e.Address] = used[e.Address] || e.Used()
		}
	}
	out := Addresses{All: len(used)}
	for _, yes := range used {
		if yes {
			out.Used++
		}
	}
	return out
}

// EndpointText returns the number of endpoints that get connections and of those in
// EndpointSlices: "2/3". The kernel knows only the first number.
func (d *Document) EndpointText(s *Service) string {
	n := s.EndpointCount()
	if d.Source == FromKernel {
		return strconv.Itoa(n.Used)
	}
	return fmt.Sprintf("%d/%d", n.Used, n.All)
}

// Traffic counts the connections of all ports.
func (s *Service) Traffic() (sum Traffic) {
	for i := range s.Ports {
		sum.Add(&s.Ports[i].Traffic)
	}
	return sum
}
