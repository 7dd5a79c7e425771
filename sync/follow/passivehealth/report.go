package passivehealth

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// Reasons of events about Services.
const (
	ReasonUnresponsive = model.ProblemEndpointUnresponsive
	ReasonResponsive   = "EndpointResponsive"
	ReasonUnknown      = "EndpointResponsivenessUnknown"
)

// maxServices is how many Services of an endpoint get an event.
const maxServices = 10

// A Report is the state of a [Tracker] at one moment.
type Report struct {
	Endpoints []Unresponsive // in the order of their addresses
	// Late is how long ago the connections were last read, if the next reading is overdue;
	// otherwise zero.
	Late time.Duration
}

// Unresponsive is an endpoint that is unresponsive, or possibly so.
type Unresponsive struct {
	Protocol model.Protocol
	Endpoint netip.AddrPort
	// Possibly means that it is not certain: probes do not count, and nothing is avoided.
	Possibly bool
	// ProbesWorked reports whether probes of this node have had a reply.
	ProbesWorked bool
	// Services are those whose clients are concerned.
	Services []sync.Object
	Avoiding []sync.Object // the ones with [model.PassiveChecksAvoid]
	Since    time.Time
	// Clients, whoever they are, have Connections without a reply. Probes are those without one.
	Clients, Connections, Probes int
}

// Report returns the current state.
func (t *Tracker) Report(ctx context.Context) (Report, error) {
	return sync.CallOn(ctx, t.requests, t.ended, t.currentReport)
}

func (t *Tracker) currentReport() (r Report) {
	r.Late = t.Late()
	for _, c := range t.checks.all {
		u := Unresponsive{
			Protocol: c.protocol, Endpoint: c.addr, ProbesWorked: !c.replied.IsZero(),
			Clients: c.clients, Connections: c.connections, Probes: c.unanswered,
		}
		switch {
		case c.phase == phaseUnresponsive:
			u.Services, u.Since = services(c.in), c.began
			reports := func(p *pool) bool { return p.mode != model.PassiveChecksAvoid }
			u.Avoiding = services(slices.DeleteFunc(slices.Clone(c.in), reports))
		case !c.possible.IsZero():
			u.Possibly, u.Services, u.Since, u.Probes = true, services(c.possibleIn), c.possible, probesOfCheck
		default:
			continue
		}
		r.Endpoints = append(r.Endpoints, u)
	}
	slices.SortFunc(r.Endpoints, func(a, b Unresponsive) int {
		return cmp.Or(a.Endpoint.Compare(b.Endpoint), cmp.Compare(a.Protocol, b.Protocol))
	})
	return r
}

// Totals returns how many endpoints of Service ports are unresponsive now, how many probes were
// sent, and how often an endpoint became unresponsive or responsive. It may be called at any time.
func (t *Tracker) Totals() (unresponsive, probes, changes int64) {
	return t.unresponsive.Load(), t.probes.Load(), t.changes.Load()
}

// InUse returns how many endpoints this node's clients use, and how many of them its probes reach
// and can find unresponsive. It may be called at any time.
func (t *Tracker) InUse() (endpoints, reached int64) { return t.inUse.Load(), t.reached.Load() }

// Late returns [Report].Late. It may be called at any time.
func (t *Tracker) Late() time.Duration { return time.Duration(t.late.Load()) }

// reportChange reports the result of a check, within the limits of the namespaces. A mere
// possibility gets no event, which cannot be taken back.
func (t *Tracker) reportChange(c *check, was phase) {
	if was == phaseUnresponsive || c.phase == phaseUnresponsive || c.possible.IsZero() {
		t.changes.Add(1)
	}
	endpoint := fmt.Sprintf("endpoint %s/%s", c.addr, c.protocol)
	switch {
	case c.phase == phaseUnresponsive:
		note := fmt.Sprintf("%s is unresponsive: no reply to %d connections of %d clients of node %s, nor to %d probes",
			endpoint, c.connections, c.clients, t.NodeName, c.unanswered)
		if slices.ContainsFunc(c.in, func(p *pool) bool { return p.mode == model.PassiveChecksAvoid }) {
			note += "; new connections avoid it as far as the Service has others"
		}
		t.notify(t.notices, c, c.in, ReasonUnresponsive, note).Warn("endpoint unresponsive",
			"clients", c.clients, "connections", c.connections, "probes", c.unanswered)
	case c.possible.IsZero():
		note := endpoint + " replies to node " + t.NodeName + " again"
		t.notify(t.notices, c, c.pools, ReasonResponsive, note).Info("endpoint responsive")
	case was == phaseUnresponsive:
		note := "whether " + endpoint + " is unresponsive is no longer known: probes of node " + t.NodeName +
			" do not count"
		t.notify(t.notices, c, c.possibleIn, ReasonUnknown, note).Info("endpoint no longer known to be unresponsive")
	default:
		t.notify(t.quiet, c, c.possibleIn, "", "").Info("endpoint possibly unresponsive",
			"clients", c.clients, "connections", c.connections, "probes_worked", !c.replied.IsZero())
	}
}

// notify sends an event about each Service, and returns the log for a line about the endpoint.
func (t *Tracker) notify(to *sync.Notices, c *check, in []*pool, reason, note string) (log *slog.Logger) {
	log = slog.New(slog.DiscardHandler)
	about := services(in)
	for i, o := range about[:min(len(about), maxServices)] {
		if next := to.Notify(o, reason, note); i == 0 {
			log = next.With("service", o.Namespace+"/"+o.Name)
		}
	}
	return log.With("endpoint", c.addr.String(), "protocol", c.protocol.String())
}

// publish sends the changes in these pools to the loop.
func (t *Tracker) publish(ctx context.Context, all []*pool) {
	if len(all) == 0 {
		return
	}
	unresponsive := map[*pool][]*check{}
	for _, c := range t.checks.active {
		for _, p := range c.in {
			unresponsive[p] = append(unresponsive[p], c)
		}
	}
	var out []model.Overlay
	all = slices.SortedFunc(slices.Values(all), func(a, b *pool) int { return a.key.Compare(b.key) })
	for _, p := range slices.Compact(all) {
		next := mostWitnessesFirst(unresponsive[p])
		if slices.Equal(next, p.sent) && !p.lost {
			continue
		}
		t.unresponsive.Add(int64(len(next) - len(p.sent)))
		p.sent, p.lost = next, false
		if p.mode == model.PassiveChecksAvoid {
			out = append(out, model.UnresponsiveEndpoints{Key: p.key, Endpoints: next})
		}
	}
	sync.SendOverlays(ctx, t.Overlays, out)
}

// mostWitnessesFirst returns the endpoints of checks, first those with the most witnesses without a
// reply when it was decided, then the oldest.
func mostWitnessesFirst(list []*check) (out []netip.AddrPort) {
	slices.SortFunc(list, func(a, b *check) int {
		return cmp.Or(-cmp.Compare(len(a.waiting), len(b.waiting)), a.began.Compare(b.began), a.addr.Compare(b.addr))
	})
	for _, c := range list {
		out = append(out, c.addr)
	}
	return out
}
