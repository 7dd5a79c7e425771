package findings

import (
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/nodestatus"
)

// A collector collects the findings of one Service. What has the same cause at several
// ports and in both families is one finding.
type collector struct {
	service *nodestatus.Service
	other   *nodeScheduler
	drafts  []*draft
}

// maxListed is how many ports and addresses a finding lists. Authors of Services decide how
// many there are.
const maxListed = 20

// A draft is a finding that grows with each port.
type draft struct {
	Finding

	minor     bool // the present port has no problem, but another one has
	addresses map[string]bool
}

// draft returns the draft of a reason and field, which is a problem if it is one anywhere.
func (c *collector) draft(severity, reason, field string, p *nodestatus.Port) *draft {
	i := slices.IndexFunc(c.drafts, func(d *draft) bool { return d.Reason == reason && d.Field == field })
	if i < 0 {
		i = len(c.drafts)
		c.drafts = append(c.drafts, &draft{
			Finding: Finding{
				Severity: severity, Object: "Service " + c.service.Namespace + "/" + c.service.Name,
				Namespace: c.service.Namespace, Name: c.service.Name, Reason: reason, Field: field,
			},
			addresses: map[string]bool{},
		})
	}
	d := c.drafts[i]
	if severity == problem && d.Severity != severity {
		d.Severity, d.Endpoints, d.Args = severity, nil, nodestatus.Args{Count: d.Count}
		clear(d.addresses)
	}
	d.minor = severity != d.Severity
	d.Families = once(d.Families, p.Family)
	if len(d.Ports) < maxListed {
		d.Ports = once(d.Ports, strings.TrimPrefix(p.Name+"/"+p.Protocol, "/"))
	}
	return d
}

// add adds the endpoints concerned of one port, and how many could serve it. Of a problem it
// keeps those of ports that have it. It names those of one port and family, since a pod has an
// address of each.
func (d *draft) add(hit []*nodestatus.Endpoint, all int) *draft {
	if d.minor {
		return d
	}
	if len(hit) > d.Hit || d.All == 0 {
		d.Hit, d.All, d.NamedOf, d.Named = len(hit), all, len(hit), nil
		for _, e := range hit[:min(len(hit), maxNamed)] {
			d.Named = append(d.Named, e.At())
		}
	}
	for _, e := range hit {
		d.Count += e.Refused + e.Unanswered
		if d.addresses[e.Address] {
			continue
		}
		d.addresses[e.Address] = true
		if len(d.Endpoints) < maxListed {
			d.Endpoints = append(d.Endpoints, e.At())
		}
	}
	return d
}

func (d *draft) frontend(p *nodestatus.Port, f *nodestatus.Frontend) *draft {
	if len(d.Frontends) < maxListed {
		d.Frontends = append(d.Frontends, f.At(p.Protocol))
	}
	return d
}

func once(list []string, value string) []string {
	if slices.Contains(list, value) {
		return list
	}
	return append(list, value)
}

func (c *collector) collect() (out []Finding) {
	explained := false
	for i := range c.service.Problems {
		p := &c.service.Problems[i]
		f := ofProblem(p)
		f.Namespace, f.Name = c.service.Namespace, c.service.Name
		explained = explained || f.IsProblem() && p.Reason != nodestatus.ReasonNoPort
		k := slices.IndexFunc(out, func(o Finding) bool { return o.Family != f.Family && o.equalsButFamily(f) })
		if k < 0 {
			out = append(out, f)
		} else {
			out[k].Family = ""
		}
	}
	for i := range c.service.Ports {
		c.port(&c.service.Ports[i], explained)
		c.notCounted(&c.service.Ports[i])
	}
	for _, d := range c.drafts {
		if d.Reason == NoEndpoints && len(d.Families) < c.families() {
			d.Family = d.Families[0] // there are endpoints of the other one
		}
		out = append(out, d.Finding)
	}
	return out
}

func (f *Finding) equalsButFamily(o Finding) bool {
	return f.Object == o.Object && f.Field == o.Field && f.Reason == o.Reason && f.Hit == o.Hit &&
		f.Message == o.Message && slices.Equal(f.Names, o.Names)
}

// port collects the findings of a port. If a problem of the Service may be why it is not
// programmed, that is enough.
func (c *collector) port(p *nodestatus.Port, explained bool) {
	if len(p.Frontends) == 0 {
		if !explained {
			c.draft(problem, NotProgrammed, "", p)
		}
		return
	}
	v := newPortView(p)
	for i := range p.Frontends {
		c.frontend(p, &p.Frontends[i], v)
	}
	c.choice(p, v)
	c.unused(p, v)
	c.used(p, v)
	c.unresponsive(p)
}

func (c *collector) notCounted(p *nodestatus.Port) {
	if !p.Uncounted {
		return
	}
	d := c.draft(notice, nodestatus.ReasonNotCounted, "", p)
	d.Kind = kindShare
	for i := range p.Frontends {
		if p.Frontends[i].Uncounted {
			d.frontend(p, &p.Frontends[i])
		}
	}
}

// A nodeScheduler counts the ports that have the scheduler of the node, and not one of
// their Service. One finding is enough for all of them.
type nodeScheduler map[string]int

func (n nodeScheduler) findings(d *nodestatus.Document) (out []Finding) {
	for name, ports := range n {
		out = append(out, Finding{
			Severity: notice, Object: "Node " + d.Node, Reason: Scheduler, Kind: name,
			Field: fieldScheduler + ": " + name, Args: nodestatus.Args{Number: ports},
		})
	}
	return out
}
