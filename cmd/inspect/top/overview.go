package top

import (
	"kube-vmap/cmd/inspect/status"
)

// serviceRows returns the rows of the overview.
func serviceRows(d *status.Document) []row {
	out := make([]row, len(d.Services))
	for i := range d.Services {
		out[i] = serviceRow(d, &d.Services[i])
	}
	return out
}

func serviceRow(d *status.Document, s *status.Service) row {
	r := row{id: id{s.Namespace, s.Name}, names: [3]string{clean(s.Namespace), clean(s.Name)}}
	r.counts = make([]count, len(s.Ports))
	for i := range s.Ports {
		p := &s.Ports[i]
		r.counts[i] = count{portID{p.Family, p.Protocol, p.Name}, p.Connections}
		r.connections += p.Connections
		r.active += p.Active
	}
	n := s.EndpointCount()
	r.used, r.known, r.endpoints = n.Used, n.All > 0, d.EndpointText(s)
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
	return severities[s.Severity()], clean(text)
}
