package top

import (
	"fmt"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/status"
)

// Groups of the rows of one Service.
const (
	frontends = iota
	endpoints
	nodes
)

// detailRows returns the rows of the only Service in the document: its frontends and
// endpoints.
func detailRows(d *status.Document) []Row {
	var out []Row
	for i := range d.Services {
		for j := range d.Services[i].Ports {
			out = appendPort(out, d, &d.Services[i].Ports[j])
		}
	}
	return out
}

func appendPort(out []Row, d *status.Document, p *status.Port) []Row {
	for i := range p.Frontends {
		f := &p.Frontends[i]
		r := detailRow(d, p, f.Kind, f.At(p.Protocol), f.Traffic)
		r.group = frontends
		r.severity, r.status = frontendStatus(f)
		out = append(out, r)
	}
	share := p.SharePercents()
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		r := detailRow(d, p, "endpoint", e.At(), e.Traffic)
		r.group = endpoints
		r.severity, r.status = endpointStatus(share, e)
		out = append(out, r)
	}
	return out
}

func detailRow(d *status.Document, p *status.Port, kind, address string, t status.Traffic) Row {
	name := strings.TrimSpace(p.Name + " " + p.Protocol + " " + p.Family)
	return Row{
		id:      id{p.Family, p.Protocol, p.Name, kind, address},
		Names:   [3]string{Clean(name), Clean(kind), Clean(address)},
		counts:  []count{countOf(d, p, t.Connections)},
		traffic: traffic{active: t.Active, connections: t.Connections, fastPath: t.FastPath},
	}
}

func frontendStatus(f *status.Frontend) (severity int, text string) {
	text = f.Policy
	if text != "" {
		text = "policy " + text
	}
	if f.Restricted {
		text += fmt.Sprintf(", restricted to %d source ranges", len(f.Sources))
	}
	switch f.Verdict {
	case status.VerdictBalance:
		return severityOK, Clean(text)
	case status.VerdictDrop:
		return severityProblem, Clean(markProblem("no endpoints: drops, " + text))
	}
	return severityProblem, Clean(markProblem("no endpoints: rejects, " + text))
}

func endpointStatus(share func(*status.Endpoint) (float64, bool), e *status.Endpoint) (severity int, text string) {
	switch e.Reason {
	case "":
	case status.ReasonBusy:
		return severityOK, "busy: others have fewer active connections"
	default:
		return severityNotice, Clean(markProblem(e.Reason))
	}
	text = "serves"
	if e.KnownConditions().Terminating {
		text = "serves while terminating"
	}
	if percent, uneven := share(e); uneven {
		text += fmt.Sprintf(", %.3g %% of new connections", percent)
	}
	if e.Node != "" {
		text += ", on " + e.Node
	}
	return severityOK, Clean(text)
}

// detailRowsAndNode returns the rows of the only Service in the document, and one for the
// node.
func detailRowsAndNode(d *status.Document) []Row {
	node := Row{id: id{"node", d.Node}, group: nodes, Names: [3]string{"", "node", Clean(d.Node)}}
	for i := range d.Services {
		r := serviceRow(d, &d.Services[i])
		node.counts = append(node.counts, r.counts...)
		node.active += r.active
		node.connections += r.connections
		node.fastPath += r.fastPath
		node.severity, node.status = r.severity, r.status
	}
	return append(detailRows(d), node)
}

// detailNotes returns the problems of the Service, each once.
func detailNotes(a Answer) []string {
	var out []string
	for _, d := range a.Documents {
		for i := range d.Services {
			for _, n := range notes(d.Services[i].Problems) {
				if !slices.Contains(out, n) {
					out = append(out, n)
				}
			}
		}
	}
	return out
}

// detailState returns the worst state of the Service, as in the overview; empty if it is gone.
func detailState(a Answer) string {
	worst, text := severityOK-1, ""
	for _, d := range a.Documents {
		for i := range d.Services {
			if s := &d.Services[i]; severities[s.Severity()] > worst {
				worst, text = severities[s.Severity()], stateText(d, s)
			}
		}
	}
	return text
}
