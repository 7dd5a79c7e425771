package findings

import (
	"slices"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/model"
)

// A portView groups the endpoints of a port.
type portView struct {
	all      int                           // that could serve: those in EndpointSlices
	used     []*status.Endpoint            // get connections
	byReason map[string][]*status.Endpoint // those that do not, by the reason
	local    int                           // used by frontends with a Local policy
	usable   int                           // used, or not for a policy alone
	ready    bool                          // one of these is
}

func newPortView(p *status.Port) *portView {
	v := &portView{byReason: map[string][]*status.Endpoint{}}
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		if e.Reason != status.ReasonGone && e.Reason != model.ReasonDuplicate.String() {
			v.all++
		}
		if e.LocalSlot != nil {
			v.local++
		}
		if e.Used() {
			v.used = append(v.used, e)
		}
		v.ready = v.ready || e.KnownConditions().Ready && (e.Used() || e.Reason == model.ReasonNotLocal.String())
		if e.Reason != "" {
			v.byReason[e.Reason] = append(v.byReason[e.Reason], e)
		}
	}
	v.usable = len(v.used) + len(v.byReason[model.ReasonNotLocal.String()])
	return v
}

// frontend collects why an address and port is not served, or not to all clients alike.
func (c *collector) frontend(p *status.Port, f *status.Frontend, v *portView) {
	if f.Verdict == status.VerdictReject && v.all == 0 {
		field, kind := FieldSelector, ""
		if c.service.WithoutSelector {
			field, kind = fieldServiceName, kindNoSelector
		}
		d := c.draft(status.SeverityProblem, NoEndpoints, field, p)
		d.Kind = kind
		d.frontend(p, f)
	}
	if f.Restricted {
		d := c.draft(status.SeverityNotice, SourceRanges, FieldSourceRanges, p)
		d.frontend(p, f)
		for _, r := range f.Sources[:min(len(f.Sources), maxListed)] {
			d.Names = once(d.Names, r)
		}
	}
	if f.Policy != "Local" || v.usable == v.local {
		return
	}
	internal := f.Kind == model.KindClusterIP.String()
	field, severity := FieldExternalLocal, status.SeverityNotice
	if internal {
		field = FieldInternalLocal
	}
	if f.Verdict != status.VerdictDrop {
		d := c.draft(severity, LocalPolicy, field, p)
		d.frontend(p, f)
		d.Hit, d.All = max(d.Hit, v.local), max(d.All, v.usable)
		return
	}
	if internal {
		severity = status.SeverityProblem // load balancers avoid this node, pods on it do not
	}
	d := c.draft(severity, NoneLocal, field, p)
	d.frontend(p, f)
	d.All = max(d.All, v.usable)
}

// families returns how many families the Service has.
func (c *collector) families() int {
	var list []string
	for i := range c.service.Ports {
		list = once(list, c.service.Ports[i].Family)
	}
	return len(list)
}

// choice collects why not each endpoint has the same chance.
func (c *collector) choice(p *status.Port, v *portView) {
	if len(v.used) < 2 {
		return
	}
	if p.AffinitySeconds > 0 {
		c.draft(status.SeverityNotice, Affinity, FieldAffinity, p).Seconds = p.AffinitySeconds
	}
	switch p.Scheduler {
	case model.SchedulerSourceHash.String(), model.SchedulerMaglev.String(), model.SchedulerLeastConnections.String():
		if c.service.SchedulerField == "" {
			(*c.other)[p.Scheduler]++
		} else {
			c.draft(status.SeverityNotice, Scheduler, c.service.SchedulerField, p).Kind = p.Scheduler
		}
	}
	weights := map[int]bool{}
	for _, e := range v.used {
		weights[max(e.Weight, 1)] = true
	}
	if len(weights) > 1 {
		c.draft(status.SeverityNotice, Weights, fieldWeight, p).add(v.used, v.all)
	}
}

// unused collects why endpoints get no connections.
func (c *collector) unused(p *status.Port, v *portView) {
	severity := status.SeverityNotice
	if slices.ContainsFunc(p.Frontends, func(f status.Frontend) bool { return f.Verdict == status.VerdictReject }) {
		severity = status.SeverityProblem
	}
	for _, r := range [...]struct {
		reason            model.Reason
		finding, severity string
	}{
		{model.ReasonNotReady, NotReady, severity},
		{model.ReasonDrained, Drained, severity},
		{model.ReasonOtherZones, Hints, status.SeverityNotice},
		{model.ReasonOtherNodes, Hints, status.SeverityNotice},
	} {
		c.byField(p, r.severity, r.finding, r.reason.String(), v.expected(r.reason.String()), v.all)
	}
	c.byField(p, status.SeverityProblem, NotProgrammed, "", v.expected(status.ReasonNotProgrammed), v.all)
	c.byField(p, status.SeverityNotice, Busy, "", v.expected(status.ReasonBusy), v.all)
	if missing := v.byReason[model.ReasonNoPort.String()]; len(missing) < v.all { // else it is a problem of the Service
		c.byField(p, status.SeverityNotice, NoPort, kindSome, missing, v.all)
	}
	c.stale(p)
}

// expected returns the endpoints with a reason. A pod that terminates while others serve is
// expected to be not ready.
func (v *portView) expected(reason string) (out []*status.Endpoint) {
	for _, e := range v.byReason[reason] {
		if len(v.used) == 0 || !e.KnownConditions().Terminating {
			out = append(out, e)
		}
	}
	return out
}

// byField adds endpoints to the drafts of their fields.
func (c *collector) byField(p *status.Port, severity, reason, kind string, list []*status.Endpoint, all int) {
	fields := map[string][]*status.Endpoint{}
	var order []string
	for _, e := range list {
		field := FieldOf(c.service, e)
		if fields[field] == nil {
			order = append(order, field)
		}
		fields[field] = append(fields[field], e)
	}
	for _, field := range order {
		d := c.draft(severity, reason, field, p).add(fields[field], all)
		if kind != reason {
			d.Kind = kind
		}
	}
}

// stale collects connections to endpoints that do not serve any more.
func (c *collector) stale(p *status.Port) {
	var hit []*status.Endpoint
	n := 0
	for i := range p.Endpoints {
		if e := &p.Endpoints[i]; !e.Used() && e.Active > 0 {
			hit = append(hit, e)
			n += e.Active
		}
	}
	if n == 0 {
		return
	}
	field := FieldOf(c.service, hit[0])
	for _, e := range hit {
		if FieldOf(c.service, e) != field {
			field = ""
		}
	}
	d := c.draft(status.SeverityNotice, Stale, field, p)
	before := d.Count // of responses, which add counts
	d.add(hit, len(p.Endpoints))
	d.Count = before + n
	d.Named, d.NamedOf = d.Endpoints[:min(len(d.Endpoints), maxNamed)], len(d.addresses)
}

// used collects what is wrong with endpoints that get connections.
func (c *collector) used(p *status.Port, v *portView) {
	var fallback, local, early, refuses, silent []*status.Endpoint
	for _, e := range v.used {
		k := e.KnownConditions()
		switch {
		case e.Conditions == nil:
		case !k.Ready && v.ready:
			local = append(local, e)
		case !k.Ready:
			fallback = append(fallback, e)
		case !k.Serving:
			early = append(early, e)
		}
		switch {
		case e.Refused > 0:
			refuses = append(refuses, e)
		case e.Unanswered > 0:
			silent = append(silent, e)
		}
	}
	if len(fallback) > 0 {
		field := readyField(fallback[0])
		if others := v.byReason[model.ReasonNotReady.String()]; len(others) > 0 {
			field = readyField(others[0])
		}
		c.draft(status.SeverityProblem, Fallback, field, p).add(fallback, v.all)
	}
	if len(local) > 0 {
		c.draft(status.SeverityNotice, Fallback, fieldDeletion, p).add(local, v.all)
	}
	if len(early) > 0 {
		field := fieldPublish
		if early[0].Manual {
			field = fieldSliceReady
		}
		c.draft(status.SeverityNotice, PublishedEarly, field, p).add(early, v.all)
	}
	if len(refuses) > 0 {
		c.draft(status.SeverityProblem, Refuses, FieldTargetPort, p).add(refuses, v.all).Number = int(refuses[0].Port)
	}
	if len(silent) == 0 {
		return
	}
	if p.Protocol == "UDP" { // which may not need answers
		d := c.draft(status.SeverityNotice, Silent, FieldTargetPort, p).add(silent, v.all)
		d.Kind, d.Number = kindUDP, int(silent[0].Port)
		return
	}
	c.draft(status.SeverityProblem, Silent, "", p).add(silent, v.all)
}
