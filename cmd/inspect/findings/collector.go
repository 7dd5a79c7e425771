package findings

import (
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/model"
)

// A collector collects the findings of one Service. What has the same cause at several
// ports and in both families is one finding.
type collector struct {
	service *status.Service
	other   *nodeScheduler
	drafts  []*draft
}

// maxListed is how many ports and addresses a finding lists. Authors of Services decide how
// many there are.
const maxListed = 20

// A draft is a finding that grows with each port. Its text is written at the end.
type draft struct {
	Finding

	hit, all  int                // endpoints concerned of one port and family, and all that could serve it
	shown     []*status.Endpoint // those that hit counts
	count     int                // connections
	minor     bool               // the present port has no problem, but another one has
	sources   []string
	addresses map[string]bool
	write     func(*draft) string
}

// draft returns the draft of a reason and field, which is a problem if it is one anywhere.
func (c *collector) draft(severity, reason, field string, p *status.Port, write func(*draft) string) *draft {
	i := slices.IndexFunc(c.drafts, func(d *draft) bool { return d.Reason == reason && d.Field == field })
	if i < 0 {
		i = len(c.drafts)
		c.drafts = append(c.drafts, &draft{
			Finding: Finding{
				Severity: severity, Object: "Service " + c.service.Namespace + "/" + c.service.Name,
				Namespace: c.service.Namespace, Name: c.service.Name, Reason: reason, Field: field,
			},
			addresses: map[string]bool{}, write: write,
		})
	}
	d := c.drafts[i]
	if severity == status.SeverityProblem && d.Severity != severity {
		d.Severity, d.hit, d.all, d.shown, d.Endpoints = severity, 0, 0, nil, nil
		clear(d.addresses)
	}
	d.minor = severity != d.Severity
	if p != nil {
		d.Families = once(d.Families, p.Family)
		if len(d.Ports) < maxListed {
			d.Ports = once(d.Ports, portName(p))
		}
	}
	return d
}

// add adds the endpoints concerned of one port, and how many could serve it. Of a problem it
// keeps those of ports that have it.
func (d *draft) add(hit []*status.Endpoint, all int) {
	if d.minor {
		return
	}
	if len(hit) > d.hit || d.all == 0 {
		d.hit, d.all, d.shown = len(hit), all, hit
	}
	for _, e := range hit {
		d.count += e.Refused + e.Unanswered
		if d.addresses[e.Address] {
			continue
		}
		d.addresses[e.Address] = true
		if len(d.Endpoints) < maxListed {
			d.Endpoints = append(d.Endpoints, e.At())
		}
	}
}

// frontend adds an address and port.
func (d *draft) frontend(p *status.Port, f *status.Frontend) {
	if len(d.Frontends) < maxListed {
		d.Frontends = append(d.Frontends, f.At(p.Protocol))
	}
}

func once(list []string, value string) []string {
	if slices.Contains(list, value) {
		return list
	}
	return append(list, value)
}

// portName returns "http/TCP", or "TCP" of a port without a name.
func portName(p *status.Port) string {
	if p.Name == "" {
		return p.Protocol
	}
	return p.Name + "/" + p.Protocol
}

// collect returns the findings of the Service.
func (c *collector) collect() (out []Finding) {
	explained := false
	for i := range c.service.Problems {
		p := &c.service.Problems[i]
		severity := p.Severity()
		explained = explained || severity == status.SeverityProblem && p.Reason != status.ReasonNoPort
		f := Finding{
			Severity: severity, Object: p.Object, Namespace: c.service.Namespace, Name: c.service.Name,
			Reason: p.Reason, Field: problemField(p), Text: oneLine(p.Text),
		}
		if k := slices.IndexFunc(out, f.equalsButFamily); k >= 0 {
			out[k].Text = withoutFamily.Replace(f.Text)
		} else {
			out = append(out, f)
		}
	}
	for i := range c.service.Ports {
		c.port(&c.service.Ports[i], explained)
		c.notCounted(&c.service.Ports[i])
	}
	for _, d := range c.drafts {
		d.Text = d.write(d)
		out = append(out, d.Finding)
	}
	return out
}

// withoutFamily removes the family from a text, so that it applies to both.
var withoutFamily = strings.NewReplacer(" IPv4 ", " ", " IPv6 ", " ")

// equalsButFamily reports whether another finding is the same, or that of the other family.
func (f *Finding) equalsButFamily(o Finding) bool {
	return f.Object == o.Object && f.Reason == o.Reason && f.Field == o.Field && withoutFamily.Replace(f.Text) == withoutFamily.Replace(o.Text)
}

// problemField returns the field of a Service's problem.
func problemField(p *status.Problem) string {
	if p.Reason == model.ProblemOpen {
		return FieldSourceRanges
	}
	return fieldOf(p)
}

// port collects the findings of a port. If a problem of the Service may be why it is not
// programmed, that is enough.
func (c *collector) port(p *status.Port, explained bool) {
	if len(p.Frontends) == 0 {
		if !explained {
			c.draft(status.SeverityProblem, NotProgrammed, "", p, textMissing)
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
}
