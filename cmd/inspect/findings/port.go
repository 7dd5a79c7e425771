package findings

import (
	"maps"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

type portView struct {
	all      int                               // that could serve: those in EndpointSlices
	used     []*nodestatus.Endpoint            // get connections
	byReason map[string][]*nodestatus.Endpoint // those that do not, by the reason
	local    int                               // used by frontends with a Local policy
	usable   int                               // used, or not for a policy alone
	ready    bool                              // one of these is
}

func newPortView(p *nodestatus.Port) *portView {
	v := &portView{byReason: map[string][]*nodestatus.Endpoint{}}
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		if e.Reason != nodestatus.ReasonGone && e.Reason != model.ReasonDuplicate.String() {
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
func (c *collector) frontend(p *nodestatus.Port, f *nodestatus.Frontend, v *portView) {
	if f.Verdict == nodestatus.VerdictReject && v.all == 0 {
		field, kind := nodestatus.FieldSelector, ""
		if c.service.WithoutSelector {
			field, kind = nodestatus.FieldServiceName, nodestatus.KindNoSelector
		}
		c.draft(problem, nodestatus.ReasonNoEndpoints, field, p).frontend(p, f).Kind = kind
	}
	if f.Verdict == nodestatus.VerdictElsewhere {
		c.draft(notice, nodestatus.ReasonElsewhere, nodestatus.FieldNodes, p).frontend(p, f)
		return
	}
	if f.Verdict == nodestatus.VerdictHold {
		c.held(p, f)
	}
	ranges := func(field, kind string, list []string) {
		d := c.draft(notice, nodestatus.ReasonSourceRanges, field, p).frontend(p, f)
		d.Kind = kind
		d.Names = union(d.Names, list...)
	}
	if f.Restricted && !f.AllowsAll() {
		ranges(nodestatus.FieldSourceRanges, "", f.Sources)
	}
	if len(f.Denied) > 0 {
		ranges(nodestatus.FieldDenied, nodestatus.KindDenied, f.Denied)
	}
	if f.Policy != "Local" || v.usable == v.local {
		return
	}
	reason, severity, field := nodestatus.ReasonNoneLocal, notice, nodestatus.FieldExternalLocal
	if f.Kind == model.KindClusterIP.String() {
		field, severity = nodestatus.FieldInternalLocal, problem // load balancers avoid this node, pods on it do not
	}
	if f.Verdict != nodestatus.VerdictDrop {
		reason, severity = nodestatus.ReasonLocalPolicy, notice
	}
	d := c.draft(severity, reason, field, p).frontend(p, f)
	d.Hit, d.All = max(d.Hit, v.local), max(d.All, v.usable)
}

func (c *collector) choice(p *nodestatus.Port, v *portView) {
	if len(v.used) < 2 {
		return
	}
	if p.AffinitySeconds > 0 {
		c.draft(notice, nodestatus.ReasonAffinity, nodestatus.FieldAffinity, p).Seconds = p.AffinitySeconds
	}
	switch p.Scheduler {
	case model.SchedulerSourceHash.String(), model.SchedulerMaglev.String(), model.SchedulerLeastConnections.String():
		if c.service.SchedulerField == "" {
			(*c.other)[p.Scheduler]++
		} else {
			c.draft(notice, nodestatus.ReasonScheduler, c.service.SchedulerField, p).Kind = p.Scheduler
		}
	}
	weights := map[int]bool{}
	for _, e := range v.used {
		weights[max(e.Weight, 1)] = true
	}
	if len(weights) > 1 {
		c.draft(notice, nodestatus.ReasonWeights, nodestatus.FieldWeight, p, v.used...).add(v.used, v.all)
	}
}

func (c *collector) held(p *nodestatus.Port, f *nodestatus.Frontend) {
	w := p.Waiting
	if w == nil {
		c.draft(notice, nodestatus.ReasonHeld, nodestatus.FieldHold, p).frontend(p, f)
		return
	}
	d := c.draft(problem, nodestatus.ReasonHeld, nodestatus.FieldHold, p).frontend(p, f)
	d.Since = earlier(d.Since, w.Since)
	d.Clients = max(d.Clients, w.Clients) // of other ports they may be the same ones
}

// unused collects why endpoints get no connections, by the field that causes that.
func (c *collector) unused(p *nodestatus.Port, v *portView) {
	severity := notice
	if slices.ContainsFunc(p.Frontends,
		func(f nodestatus.Frontend) bool { return f.Verdict == nodestatus.VerdictReject }) {
		severity = problem
	}
	for _, r := range [...]struct{ of, reason, kind, severity string }{
		{model.ReasonNotReady.String(), nodestatus.ReasonNotReady, "", severity},
		{model.ReasonDrained.String(), nodestatus.ReasonDrained, "", severity},
		{model.ReasonStandBy.String(), nodestatus.ReasonStandBy, "", notice},
		{model.ReasonOtherZones.String(), nodestatus.ReasonHints, model.ReasonOtherZones.String(), notice},
		{model.ReasonOtherNodes.String(), nodestatus.ReasonHints, model.ReasonOtherNodes.String(), notice},
		{nodestatus.ReasonNotProgrammed, nodestatus.ReasonNotProgrammed, "", problem},
		{nodestatus.ReasonBusy, nodestatus.ReasonBusy, "", notice},
		{model.ReasonNoPort.String(), nodestatus.ReasonNoPort, nodestatus.KindSome, notice},
	} {
		list := v.expected(r.of)
		if r.reason == nodestatus.ReasonNoPort {
			if list = v.byReason[r.of]; len(list) == v.all {
				continue // it is a problem of the Service
			}
		}
		fields := map[string][]*nodestatus.Endpoint{}
		for _, e := range list {
			field := nodestatus.FieldOf(c.service, e)
			fields[field] = append(fields[field], e)
		}
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			c.draft(r.severity, r.reason, field, p, fields[field]...).add(fields[field], v.all).Kind = r.kind
		}
	}
	c.stale(p)
}

// expected returns the endpoints with a reason. A pod that terminates while others serve is
// expected to be not ready.
func (v *portView) expected(reason string) (out []*nodestatus.Endpoint) {
	for _, e := range v.byReason[reason] {
		if len(v.used) == 0 || !e.KnownConditions().Terminating {
			out = append(out, e)
		}
	}
	return out
}

func (c *collector) stale(p *nodestatus.Port) {
	var hit []*nodestatus.Endpoint
	n := 0
	for i := range p.Endpoints {
		if e := &p.Endpoints[i]; !e.Used() && e.Active > 0 && e.Reason != nodestatus.ReasonAvoided {
			hit = append(hit, e)
			n += e.Active
		}
	}
	if n == 0 {
		return
	}
	field := nodestatus.FieldOf(c.service, hit[0])
	for _, e := range hit {
		if nodestatus.FieldOf(c.service, e) != field {
			field = ""
		}
	}
	d := c.draft(notice, nodestatus.ReasonStale, field, p)
	before := d.Count // of responses, which add counts
	d.add(hit, len(p.Endpoints))
	d.Count = before + n
	d.Named, d.NamedOf = d.Endpoints[:min(len(d.Endpoints), nodestatus.MaxNamed)], len(d.addresses)
}

func (c *collector) used(p *nodestatus.Port, v *portView) {
	var fallback, local, early, starting, refuses, silent []*nodestatus.Endpoint
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
		case e.Unanswered > 0 && (e.Unresponsive == nil || e.Unresponsive.Possibly):
			silent = append(silent, e)
		}
		if e.SlowStart != "" {
			starting = append(starting, e)
		}
	}
	add := func(severity, reason, kind, field string, hit []*nodestatus.Endpoint) {
		if len(hit) == 0 {
			return
		}
		d := c.draft(severity, reason, field, p, hit...).add(hit, v.all)
		if d.Kind = kind; field == nodestatus.FieldTargetPort {
			d.Number = int(hit[0].Port)
		}
	}
	field := nodestatus.FieldPublish
	if len(early) > 0 && early[0].Manual {
		field = nodestatus.FieldSliceReady
	}
	for _, e := range append(slices.Clip(v.byReason[model.ReasonNotReady.String()]), fallback...) {
		add(problem, nodestatus.ReasonFallback, "", nodestatus.ReadyField(e), fallback)
		break // the first decides
	}
	add(notice, nodestatus.ReasonFallback, "", nodestatus.FieldDeletion, local)
	add(notice, nodestatus.ReasonSlowStart, "", nodestatus.FieldSlowStart, starting)
	add(notice, nodestatus.ReasonPublishedEarly, "", field, early)
	kind := ""
	if p.RetryRefused {
		kind = nodestatus.KindRetried
	}
	add(problem, nodestatus.ReasonRefuses, kind, nodestatus.FieldTargetPort, refuses)
	if p.Protocol == "UDP" { // which may not need answers
		add(notice, nodestatus.ReasonSilent, nodestatus.KindUDP, nodestatus.FieldTargetPort, silent)
	} else {
		add(problem, nodestatus.ReasonSilent, "", "", silent)
	}
}

// unresponsive collects the endpoints that are unresponsive, or possibly so, each a finding of its
// own: the field has its address.
func (c *collector) unresponsive(p *nodestatus.Port) {
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		u := e.Unresponsive
		if u == nil {
			continue
		}
		severity, reason, kind := problem, model.ProblemEndpointUnresponsive, ""
		switch {
		case u.Possibly:
			severity, reason = notice, model.ProblemEndpointPossiblyUnresponsive
			if u.ProbesWorked {
				kind = nodestatus.KindProbesWorked
			}
		case e.Reason == nodestatus.ReasonAvoided:
			kind = nodestatus.KindAvoided
		default:
			kind = u.NotAvoided
		}
		d := c.draft(severity, reason, nodestatus.FieldAddress+e.Address, p)
		if kind != "" {
			d.Kind = kind
		}
		at := e.At() + "/" + strings.ToLower(p.Protocol)
		if slices.Contains(d.Names, at) { // through another port of the Service
			continue
		}
		d.Names = append(d.Names, at)
		d.Endpoints, d.Message = union(d.Endpoints, e.At()), e.Node
		d.Named, d.NamedOf = d.Endpoints, len(d.Endpoints)
		d.Count, d.Number = d.Count+u.Connections, d.Number+u.Probes
		if d.Clients = u.Clients; len(d.Names) > 1 {
			d.Clients = 0 // they may be the same ones
		}
		d.Since = earlier(d.Since, u.Since)
	}
}
