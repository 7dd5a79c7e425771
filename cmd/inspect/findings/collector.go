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

// maxListed is how many ports and addresses a finding lists, and how many findings tell ports of a
// Service apart. Authors of Services decide how many there are.
const maxListed = 20

type draft struct {
	Finding

	addresses map[string]bool
	pods      map[string]string // the addresses of the endpoints of a port, by family
}

// draft returns the draft of a severity, reason and field. If endpoints are concerned, ports with
// others have drafts of their own.
func (c *collector) draft(
	severity, reason, field string, p *nodestatus.Port, hit ...*nodestatus.Endpoint,
) *draft {
	port := strings.TrimPrefix(p.Name+"/"+p.Protocol, "/")
	var pods strings.Builder
	for _, e := range hit {
		pods.WriteString(e.Address + " ")
	}
	i := slices.IndexFunc(c.drafts, func(d *draft) bool {
		known, seen := d.pods[p.Family]
		return d.Severity == severity && d.Reason == reason && d.Field == field &&
			(known == pods.String() || !seen && slices.Contains(d.Ports, port) || len(c.drafts) >= maxListed)
	})
	if i < 0 {
		i = len(c.drafts)
		c.drafts = append(c.drafts, &draft{
			Finding: Finding{
				Severity: severity, Object: "Service " + c.service.Namespace + "/" + c.service.Name,
				Namespace: c.service.Namespace, Name: c.service.Name, Reason: reason, Field: field,
			},
			addresses: map[string]bool{}, pods: map[string]string{},
		})
	}
	d := c.drafts[i]
	if len(hit) > 0 {
		d.pods[p.Family] = pods.String()
	}
	d.Families, d.Ports = union(d.Families, p.Family), union(d.Ports, port)
	return d
}

// add adds the endpoints concerned of one port, and how many could serve it. It names the endpoints of
// one port and family, since a pod has an address of each.
func (d *draft) add(hit []*nodestatus.Endpoint, all int) *draft {
	if len(hit) > d.Hit || d.All == 0 {
		d.Hit, d.All, d.NamedOf, d.Named = len(hit), all, len(hit), nil
		for _, e := range hit[:min(len(hit), nodestatus.MaxNamed)] {
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

func (c *collector) collect() (out []Finding) {
	explained := false
	for i := range c.service.Problems {
		p := &c.service.Problems[i]
		f := ofProblem(p)
		f.Namespace, f.Name = c.service.Namespace, c.service.Name
		explained = explained || f.IsProblem() && p.Reason != nodestatus.ReasonNoPort
		k := slices.IndexFunc(out, func(o Finding) bool { return o.Family != f.Family && equalButFamily(&o, &f) })
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
		ofOther := func(p nodestatus.Port) bool { return p.Family != d.Families[0] }
		switch d.Reason {
		case nodestatus.ReasonNoEndpoints, nodestatus.ReasonNotReady, nodestatus.ReasonDrained, nodestatus.ReasonNoneLocal:
			if len(d.Families) == 1 && slices.ContainsFunc(c.service.Ports, ofOther) {
				d.Family = d.Families[0] // the other one has endpoints
			}
		}
		out = append(out, d.Finding)
	}
	return out
}

func equalButFamily(f, o *Finding) bool {
	return f.Object == o.Object && f.Field == o.Field && f.Reason == o.Reason && f.Hit == o.Hit &&
		f.Message == o.Message && slices.Equal(f.Names, o.Names)
}

// port collects the findings of a port. If a problem of the Service may be why it is not
// programmed, that is enough.
func (c *collector) port(p *nodestatus.Port, explained bool) {
	if len(p.Frontends) == 0 {
		if !explained {
			c.draft(problem, nodestatus.ReasonNotProgrammed, "", p)
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
	d.Kind = nodestatus.KindShare
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
			Severity: notice, Object: "Node " + d.Node, Reason: nodestatus.ReasonScheduler, Kind: name,
			Field: nodestatus.FieldScheduler + ": " + name, Args: nodestatus.Args{Number: ports},
		})
	}
	return out
}
