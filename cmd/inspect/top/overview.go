package top

import (
	"kube-vmap/cmd/inspect/status"
)

// serviceRows returns the rows of the overview.
func serviceRows(d *status.Document) []Row {
	out := make([]Row, len(d.Services))
	for i := range d.Services {
		out[i] = serviceRow(d, &d.Services[i])
	}
	return out
}

func serviceRow(d *status.Document, s *status.Service) Row {
	r := Row{id: id{s.Namespace, s.Name}, Names: [3]string{Clean(s.Namespace), Clean(s.Name)}}
	r.counts = make([]count, len(s.Ports))
	for i := range s.Ports {
		p := &s.Ports[i]
		r.counts[i] = countOf(d, p, p.Connections)
		r.connections += p.Connections
		r.active += p.Active
		r.fastPath += p.FastPath
	}
	n := s.EndpointCount()
	r.used, r.all, r.endpoints = n.Used, n.All, d.EndpointText(s)
	r.severity, r.status = serviceStatus(d, s)
	return r
}

// severities maps [status.Severities].
var severities = map[string]int{status.SeverityOK: severityOK, status.SeverityNotice: severityNotice, status.SeverityProblem: severityProblem}

// stateText returns the state of a Service, marked if it is a problem.
func stateText(d *status.Document, s *status.Service) string {
	if s.Severity() == status.SeverityProblem {
		return markProblem(d.StateOf(s))
	}
	return d.StateOf(s)
}

// serviceStatus returns the state of a Service and its first problem.
func serviceStatus(d *status.Document, s *status.Service) (severity int, text string) {
	text = stateText(d, s)
	if why := s.FirstProblem(); why != "" {
		text += ": " + why
	}
	return severities[s.Severity()], Clean(text)
}

// countOf returns a counter of a port on the document's node.
func countOf(d *status.Document, p *status.Port, n uint64) count {
	return count{counter: counterID{d.Node, p.Family, p.Protocol, p.Name}, n: n, at: d.CountedAt}
}
