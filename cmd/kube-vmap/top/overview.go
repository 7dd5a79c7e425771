package top

import (
	"fmt"

	"kube-vmap/sync/status"
)

// serviceRows are the rows of the overview: one for each Service.
func serviceRows(d *status.Document) []row {
	out := make([]row, len(d.Services))
	for i := range d.Services {
		out[i] = serviceRow(&d.Services[i])
	}
	return out
}

func serviceRow(s *status.Service) row {
	r := row{id: id{s.Namespace, s.Name}, names: [3]string{clean(s.Namespace), clean(s.Name)}}
	r.counts = make([]count, len(s.Ports))
	for i := range s.Ports {
		p := &s.Ports[i]
		r.counts[i] = count{portID{p.Family, p.Protocol, p.Name}, p.Connections}
		r.connections += p.Connections
		r.active += p.Active
	}
	r.used, r.all = behind(s)
	r.severity, r.status = serviceStatus(s)
	return r
}

// serviceStatus is the state of a Service, and the first of its problems.
func serviceStatus(s *status.Service) (severity int, text string) {
	text = s.State()
	if text == status.StateOK && len(s.Problems) > 0 {
		text = s.Problems[0].Reason // which is no state of its own
	}
	switch text {
	case status.StateOK:
	case status.StateElsewhere, status.StateOpen:
		severity = odd // it may be meant so
	default:
		severity, text = bad, markOf(text)
	}
	if n := len(s.Problems); n > 0 {
		text += ": " + s.Problems[0].Text
		if n > 1 {
			text += fmt.Sprintf(" (and %d more)", n-1)
		}
	}
	return severity, clean(text)
}

// behind counts the addresses of endpoints that get connections, and of all of them,
// as get does: an address serves more than one port.
func behind(s *status.Service) (used, all int) {
	if s.Addresses != nil {
		return s.Addresses.Used, s.Addresses.All
	}
	addresses := map[string]bool{} // to whether it is used
	for i := range s.Ports {
		for k := range s.Ports[i].Endpoints {
			e := &s.Ports[i].Endpoints[k]
			addresses[e.Address] = addresses[e.Address] || e.Used()
		}
	}
	for _, yes := range addresses {
		if yes {
			used++
		}
	}
	return used, len(addresses)
}
