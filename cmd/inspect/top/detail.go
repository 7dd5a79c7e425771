package top

import (
	"fmt"
	"strings"

	"kube-vmap/cmd/inspect/status"
)

// Groups of the rows of one Service.
const (
	frontends = iota
	endpoints
)

// detailRows returns the rows of the only Service in the document: its frontends and
// endpoints.
func detailRows(d *status.Document) []row {
	var out []row
	for i := range d.Services {
		for j := range d.Services[i].Ports {
			out = appendPort(out, &d.Services[i].Ports[j])
		}
	}
	return out
}

func appendPort(out []row, p *status.Port) []row {
	for i := range p.Frontends {
		f := &p.Frontends[i]
		r := detailRow(p, f.Kind, f.At(p.Protocol), f.Traffic)
		r.group = frontends
		r.severity, r.status = frontendStatus(f)
		out = append(out, r)
	}
	share := p.SharePercents()
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		r := detailRow(p, "endpoint", e.At(), e.Traffic)
		r.group = endpoints
		r.severity, r.status = endpointStatus(share, e)
		out = append(out, r)
	}
	return out
}

func detailRow(p *status.Port, kind, address string, t status.Traffic) row {
	name := strings.TrimSpace(p.Name + " " + p.Protocol + " " + p.Family)
	return row{
		id:      id{p.Family, p.Protocol, p.Name, kind, address},
		names:   [3]string{clean(name), clean(kind), clean(address)},
		counts:  []count{{n: t.Connections}},
		traffic: traffic{active: t.Active, connections: t.Connections},
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
		return severityOK, clean(text)
	case status.VerdictDrop:
		return severityProblem, clean(markProblem("no endpoints: drops, " + text))
	}
	return severityProblem, clean(markProblem("no endpoints: rejects, " + text))
}

func endpointStatus(share func(*status.Endpoint) (float64, bool), e *status.Endpoint) (severity int, text string) {
	switch e.Reason {
	case "":
	case status.ReasonBusy:
		return severityOK, "busy: others have fewer active connections"
	default:
		return severityNotice, clean(markProblem(e.Reason))
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
	return severityOK, clean(text)
}

// detailNotes returns the problems of the Service.
func detailNotes(d *status.Document) []string {
	var out []string
	for i := range d.Services {
		out = append(out, notes(d.Services[i].Problems)...)
	}
	return out
}

// detailState returns the state of the Service, as in the overview; empty if it is gone.
func detailState(d *status.Document) string {
	if len(d.Services) == 0 {
		return ""
	}
	return stateText(d, &d.Services[0])
}
