package page

import (
	"cmp"
	"time"

	"kube-vmap/cmd/inspect/status"
)

// overview is what the page shows of all Services: little of each, since there may be
// tens of thousands, and browsers poll every other second.
type overview struct {
	Source  string    `json:"source"`
	Time    time.Time `json:"time"`
	Node    string    `json:"node"`
	Version string    `json:"version"`
	Ready   bool      `json:"ready"`
	Counted bool      `json:"counted"`
	// CountedAt is when the connections were read, for rates.
	CountedAt time.Time `json:"countedAt,omitzero"`

	Summary  status.Summary `json:"summary"`
	Services []line         `json:"services"`
	// Problems are those that Summary counts: one for each Service of severity Problem,
	// and those of other objects.
	Problems []problem `json:"problems"`
}

// line is a Service in the overview.
type line struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Addresses are those of its frontends, "10.96.0.10:53/udp", the ClusterIP first;
	// that of a node port is "*:30053/udp".
	Addresses []string         `json:"addresses"`
	Endpoints status.Addresses `json:"endpoints"`
	State     string           `json:"state"`
	Severity  string           `json:"severity"`
	status.Traffic
}

// problem is a problem with its Service, if it belongs to one.
type problem struct {
	status.Problem
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// overviewOf returns the overview of a document; version is that of the process.
func overviewOf(d *status.Document, version string) *overview {
	out := &overview{
		Source: d.Source, Time: d.Time, Node: d.Node, Version: d.Version, Ready: d.Ready, Counted: d.Counted, CountedAt: d.CountedAt,
		Summary: d.Summary(), Services: make([]line, len(d.Services)), Problems: []problem{},
	}
	if out.Version == "" {
		out.Version = version
	}
	for _, p := range d.Problems {
		out.Problems = append(out.Problems, problem{Problem: p})
	}
	for i := range d.Services {
		s := &d.Services[i]
		out.Services[i] = lineOf(d, s)
		if s.Severity() == status.SeverityProblem {
			p := status.Problem{Object: "Service " + s.Namespace + "/" + s.Name, Reason: d.StateOf(s), Text: cmp.Or(s.FirstProblem(), status.StateTexts[s.State()])}
			out.Problems = append(out.Problems, problem{p, s.Namespace, s.Name})
		}
	}
	return out
}

// lineOf returns the line of a Service.
func lineOf(d *status.Document, s *status.Service) line {
	out := line{
		Namespace: s.Namespace, Name: s.Name, Addresses: []string{}, Endpoints: s.EndpointCount(),
		State: d.StateOf(s), Severity: s.Severity(),
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		for j := range p.Frontends {
			out.Addresses = append(out.Addresses, p.Frontends[j].At(p.Protocol))
		}
		out.Connections += p.Connections
		out.Active += p.Active
	}
	return out
}
