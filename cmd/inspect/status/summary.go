package status

import (
	"fmt"
	"strconv"
	"strings"
)

// Severities of a Service, by its state.
const (
	SeverityOK = "OK"
	// SeverityNotice is that of a state which may be intended: on a node without
	// endpoints of a Service, its Local policy drops what comes from outside.
	SeverityNotice = "Notice"
	// SeverityProblem is that of a Service of which something is not served.
	SeverityProblem = "Problem"
)

// Severities are all that a Service may have.
func Severities() []string { return []string{SeverityOK, SeverityNotice, SeverityProblem} }

// Severity is that of the Service's state.
func (s *Service) Severity() string {
	switch s.State() {
	case StateOK:
		return SeverityOK
	case StateElsewhere, StateOpen:
		return SeverityNotice
	}
	return SeverityProblem
}

// Summary counts what a document says. A Service counts once, however many of its ports
// have a problem, or how many problems a port has. What is wrong with objects that are
// no Services is counted apart, since no row of a list of Services is about it.
type Summary struct {
	Services int `json:"services"`
	Problems int `json:"problems"` // Services of severity Problem
	Notices  int `json:"notices"`  // Services of severity Notice
	Others   int `json:"others"`   // problems of other objects
}

// Summary counts the Services of the document, and its problems.
func (d *Document) Summary() Summary {
	out := Summary{Services: len(d.Services), Others: len(d.Problems)}
	for i := range d.Services {
		switch d.Services[i].Severity() {
		case SeverityProblem:
			out.Problems++
		case SeverityNotice:
			out.Notices++
		}
	}
	return out
}

// Why is the first problem of the Service in a line, and how many more it has; empty if
// it has none.
func (s *Service) Why() string {
	if len(s.Problems) == 0 {
		return ""
	}
	text := strings.ReplaceAll(s.Problems[0].Text, "\n", "; ")
	if more := len(s.Problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// EndpointCount is how many endpoints the Service has, over all ports and both families.
func (s *Service) EndpointCount() Addresses {
	if s.Addresses != nil {
		return *s.Addresses
	}
	used := map[string]bool{}
	for i := range s.Ports {
		for k := range s.Ports[i].Endpoints {
			e := &s.Ports[i].Endpoints[k]
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

// EndpointText is the number of endpoints that get connections, of how many in
// EndpointSlices: "2/3". The kernel knows the first number only.
func (d *Document) EndpointText(s *Service) string {
	n := s.EndpointCount()
	if d.Source == FromKernel {
		return strconv.Itoa(n.Used)
	}
	return fmt.Sprintf("%d/%d", n.Used, n.All)
}
