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
		field := FieldSelector
		if c.service.WithoutSelector {
			field = fieldServiceName
		}
		c.draft(status.SeverityProblem, NoEndpoints, field, p, textNoEndpoints(c.families())).frontend(p, f)
	}
	if f.Restricted {
		d := c.draft(status.SeverityNotice, SourceRanges, FieldSourceRanges, p, textSources)
		d.frontend(p, f)
		for _, r := range f.Sources[:min(len(f.Sources), maxListed)] {
			d.sources = once(d.sources, r)
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
		d := c.draft(severity, LocalPolicy, field, p, textLocal(internal))
		d.frontend(p, f)
		d.hit, d.all = max(d.hit, v.local), max(d.all, v.usable)
		return
	}
	if internal {
		severity = status.SeverityProblem // load balancers avoid this node, pods on it do not
	}
	d := c.draft(severity, NoneLocal, field, p, textNoneLocal(internal))
	d.frontend(p, f)
	d.all = max(d.all, v.usable)
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
		c.draft(status.SeverityNotice, Affinity, FieldAffinity, p, textAffinity(p.AffinitySeconds))
	}
	switch p.Scheduler {
	case model.SchedulerSourceHash.String(), model.SchedulerMaglev.String(), model.SchedulerLeastConnections.String():
		if c.service.SchedulerField == "" {
			c.other.add(p.Scheduler)
		} else {
			c.draft(status.SeverityNotice, Scheduler, c.service.SchedulerField, p, textScheduler(p.Scheduler))
		}
	}
	weights := map[int]bool{}
	for _, e := range v.used {
		weights[max(e.Weight, 1)] = true
	}
	if len(weights) > 1 {
		c.draft(status.SeverityNotice, Weights, fieldWeight, p, textWeights).add(v.used, v.all)
	}
}

// unused collects why endpoints get no connections.
func (c *collector) unused(p *status.Port, v *portView) {
	severity := status.SeverityNotice
	if slices.ContainsFunc(p.Frontends, func(f status.Frontend) bool { return f.Verdict == status.VerdictReject }) {
		severity = status.SeverityProblem
	}
	for _, r := range [...]struct {
		reason, finding, severity string
		text                      func(*draft) string
	}{
		{model.ReasonNotReady.String(), NotReady, severity, textNotReady},
		{model.ReasonDrained.String(), Drained, severity, textDrained},
		{model.ReasonOtherZones.String(), Hints, status.SeverityNotice, textHints("zones")},
		{model.ReasonOtherNodes.String(), Hints, status.SeverityNotice, textHints("nodes")},
		{status.ReasonNotProgrammed, NotProgrammed, status.SeverityProblem, textNotProgrammed},
		{status.ReasonBusy, Busy, status.SeverityNotice, textBusy},
	} {
		c.byField(p, r.severity, r.finding, v.expected(r.reason), v.all, r.text)
	}
	if missing := v.byReason[model.ReasonNoPort.String()]; len(missing) < v.all { // else it is a problem of the Service
		c.byField(p, status.SeverityNotice, NoPort, missing, v.all, textNoPort)
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
func (c *collector) byField(p *status.Port, severity, reason string, list []*status.Endpoint, all int, text func(*draft) string) {
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
		c.draft(severity, reason, field, p, text).add(fields[field], all)
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
	d := c.draft(status.SeverityNotice, Stale, field, p, textStale)
	before := d.count // of responses, which add counts
	d.add(hit, len(p.Endpoints))
	d.count = before + n
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
		c.draft(status.SeverityProblem, Fallback, field, p, textFallback).add(fallback, v.all)
	}
	if len(local) > 0 {
		c.draft(status.SeverityNotice, Fallback, fieldDeletion, p, textLocalFallback).add(local, v.all)
	}
	if len(early) > 0 {
		field := fieldPublish
		if early[0].Manual {
			field = fieldSliceReady
		}
		c.draft(status.SeverityNotice, PublishedEarly, field, p, textEarly).add(early, v.all)
	}
	if len(refuses) > 0 {
		c.draft(status.SeverityProblem, Refuses, FieldTargetPort, p, textRefuses(refuses[0].Port)).add(refuses, v.all)
	}
	if len(silent) == 0 {
		return
	}
	if p.Protocol == "UDP" { // which may not need answers
		c.draft(status.SeverityNotice, Silent, FieldTargetPort, p, textSilentUDP(silent[0].Port)).add(silent, v.all)
		return
	}
	c.draft(status.SeverityProblem, Silent, "", p, textSilent).add(silent, v.all)
}
