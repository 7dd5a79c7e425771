package page

import (
	"net"
	"strconv"
	"strings"
	"time"

	"kube-vmap/sync/status"
)

// overview is what the page shows of all Services: little of each, since there may
// be tens of thousands, and the browser asks every other second.
type overview struct {
	Source  string    `json:"source"`
	Time    time.Time `json:"time"`
	Node    string    `json:"node"`
	Version string    `json:"version"`
	Ready   bool      `json:"ready"`
	Counted bool      `json:"counted"`
	// CountedAt is when the connections were read, from which rates are made.
	CountedAt time.Time `json:"countedAt,omitzero"`

	Services []line    `json:"services"`
	Problems []problem `json:"problems"` // of Services, too
}

// line is a Service in the overview.
type line struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Addresses are those of its frontends, "10.96.0.10:53/udp", the first being
	// that by which it is known; that of a node port is "*:30053/udp".
	Addresses []string `json:"addresses"`
	// Used is how many endpoints get connections, of All; one that serves several
	// ports counts at each.
	Used int `json:"used"`
	All  int `json:"all"`
	// Rejecting and Dropping are how many frontends answer so.
	Rejecting int `json:"rejecting"`
	Dropping  int `json:"dropping"`
	Problems  int `json:"problems"`
	status.Traffic
}

// problem is one with the Service it belongs to, if it does to any.
type problem struct {
	status.Problem
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// overviewOf is what the page shows of a document; version is that of the process
// that serves it.
func overviewOf(d *status.Document, version string) *overview {
	out := &overview{
		Source: d.Source, Time: d.Time, Node: d.Node, Version: d.Version, Ready: d.Ready, Counted: d.Counted, CountedAt: d.CountedAt,
		Services: make([]line, len(d.Services)), Problems: []problem{},
	}
	if out.Version == "" {
		out.Version = version
	}
	for _, p := range d.Problems {
		out.Problems = append(out.Problems, problem{Problem: p})
	}
	for i := range d.Services {
		s := &d.Services[i]
		out.Services[i] = lineOf(s)
		for _, p := range s.Problems {
			out.Problems = append(out.Problems, problem{p, s.Namespace, s.Name})
		}
	}
	return out
}

// lineOf is a Service in short.
func lineOf(s *status.Service) line {
	out := line{Namespace: s.Namespace, Name: s.Name, Problems: len(s.Problems), Addresses: []string{}}
	for i := range s.Ports {
		p := &s.Ports[i]
		for j := range p.Frontends {
			out.frontend(&p.Frontends[j], p.Protocol)
		}
		out.All += len(p.Endpoints)
		for j := range p.Endpoints {
			if p.Endpoints[j].Reason == "" {
				out.Used++
			}
		}
		out.Connections += p.Connections
		out.Active += p.Active
	}
	return out
}

// frontend adds a frontend.
func (l *line) frontend(f *status.Frontend, protocol string) {
	host := f.Address
	if host == "" {
		host = "*"
	}
	l.Addresses = append(l.Addresses, net.JoinHostPort(host, strconv.Itoa(int(f.Port)))+"/"+strings.ToLower(protocol))
	switch f.Verdict {
	case "Reject":
		l.Rejecting++
	case "Drop":
		l.Dropping++
	}
}
