package get

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"kube-vmap/cmd/inspect/nodestatus"
)

func services() resource {
	return resource{
		singular: "service", plural: "services", short: "svc",
		columns: []string{"NAME", "KINDS", "CLUSTER-IP", "PORT(S)", "ENDPOINTS", "CONNECTIONS", "ACTIVE", "STATUS"},
		wide:    []string{"FAST-PATH", "EXTERNAL", "POLICY", "SCHEDULER", "AFFINITY", "PROBLEM"},
		fields: []field{
			anything("metadata.name"), anything("metadata.namespace"), address("spec.clusterIP"),
			one("status", nodestatus.States()...),
			one("severity", nodestatus.Severities()...),
		},
		rows: serviceRows,
	}
}

func serviceRows(d *nodestatus.Document) []row {
	out := make([]row, len(d.Services))
	for i := range d.Services {
		out[i] = serviceRow(d, &d.Services[i])
	}
	return out
}

// serviceRow returns the row of a Service, for all ports and families.
func serviceRow(d *nodestatus.Document, s *nodestatus.Service) row {
	sum := summarize(s)
	state, severity := d.StateOf(s), s.Severity()
	return row{
		namespace: s.Namespace, name: s.Name, service: s.Name,
		cells: []string{
			s.Name, orNone(sum.kinds), orNone(sum.clusterIPs), orNone(portsOf(s)), d.EndpointText(s),
			connections(d, &sum.Traffic), strconv.Itoa(sum.Active), state,
		},
		wide: []string{
			fastPath(d, &sum.Traffic), orNone(sum.external), orNone(sum.policies), orNone(sum.schedulers), affinity(s),
			cmp.Or(s.FirstProblem(), none),
		},
		fields: fields.Set{
			"metadata.name": s.Name, "metadata.namespace": s.Namespace,
			"spec.clusterIP": first(sum.clusterIPs), "status": state, "severity": severity,
		},
		object: struct {
			nodestatus.Service `json:",inline"`
			Status             string `json:"status"`
			Severity           string `json:"severity"`
		}{*s, state, severity},
	}
}

// summary has the distinct values of a Service's ports.
type summary struct {
	nodestatus.Traffic

	kinds, clusterIPs, external, policies, schedulers []string
}

func summarize(s *nodestatus.Service) summary {
	var sum summary
	for i := range s.Ports {
		p := &s.Ports[i]
		sum.Connections += p.Connections
		sum.Active += p.Active
		sum.FastPath += p.FastPath
		sum.Uncounted = sum.Uncounted || p.Uncounted
		sum.schedulers = once(sum.schedulers, p.Scheduler)
		for k := range p.Frontends {
			sum.frontend(&p.Frontends[k])
		}
	}
	return sum
}

func (s *summary) frontend(f *nodestatus.Frontend) {
	s.kinds = once(s.kinds, f.Kind)
	s.policies = once(s.policies, f.Policy)
	switch {
	case f.Kind == "ClusterIP":
		s.clusterIPs = once(s.clusterIPs, f.Address)
	case f.Address != "":
		s.external = once(s.external, f.Address)
	}
}

// portsOf returns the ports as kubectl prints them, each once for both families.
func portsOf(s *nodestatus.Service) (out []string) {
	for i := range s.Ports {
		p := &s.Ports[i]
		var at, node uint16
		for k := range p.Frontends {
			switch f := &p.Frontends[k]; f.Kind {
			case "NodePort":
				node = f.Port
			default:
				at = f.Port
			}
		}
		text := strconv.Itoa(int(at))
		switch {
		case at == 0 && node == 0:
			text = p.Name
		case node != 0:
			text += ":" + strconv.Itoa(int(node))
		}
		out = once(out, text+"/"+p.Protocol)
	}
	return out
}

// affinity returns the timeout of session affinity.
func affinity(s *nodestatus.Service) string {
	for i := range s.Ports {
		if n := s.Ports[i].AffinitySeconds; n > 0 {
			return strconv.Itoa(n) + "s"
		}
	}
	return none
}

// none replaces empty values.
const none = "<none>"

// orNone joins values.
func orNone(values []string) string {
	if len(values) == 0 {
		return none
	}
	return strings.Join(values, ",")
}

// once appends a value, unless it is empty or in the list.
func once(list []string, value string) []string {
	if value == "" || slices.Contains(list, value) {
		return list
	}
	return append(list, value)
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// connections returns the total, if it is counted.
func connections(d *nodestatus.Document, t *nodestatus.Traffic) string {
	switch {
	case !d.Counted:
		return "-"
	case t.Uncounted:
		return "?"
	}
	return strconv.FormatUint(t.Connections, 10)
}

// fastPath returns how many connections are on the fast path, if it was asked for.
func fastPath(d *nodestatus.Document, t *nodestatus.Traffic) string {
	if d.Health == nil || d.Health.FastPath == nil {
		return none
	}
	return strconv.Itoa(t.FastPath)
}

// join returns an address with its port and protocol.
func join(address string, port uint16, protocol string) string {
	return net.JoinHostPort(address, strconv.Itoa(int(port))) + "/" + strings.ToLower(protocol)
}
