package soak

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	// answer is how long an answer may take on a busy machine.
	answer = 5 * time.Second
	// pace is how often each user asks, by one or the other kind of connection.
	pace = 8 * time.Millisecond
)

// user asks all Services that stay, over and over, from one host in one way: by
// new connections, and by flows that it keeps.
type user struct {
	way      daemon.Transport
	from     *lab.Host
	targets  []target
	ports    *ports
	record   record
	previous []string // by target: who answered last
}

// ports counts the ports that all users have asked from.
type ports struct{ fresh, lasting atomic.Uint32 }

// target is one address of a Service, as a user sees it.
type target struct {
	service daemon.Service
	kind    model.Kind
	to      netip.AddrPort
	by      []string // who may answer
	always  bool     // the same answers each time
	flow    *lab.Flow
	flowBy  string // who answers the flow
}

// record is what came of questions.
type record struct {
	asked, inFlows int
	failures       []string
}

func (r *record) add(o record) {
	r.asked += o.asked
	r.inFlows += o.inFlows
	r.failures = append(r.failures, o.failures...)
}

// String is one line.
func (r record) String() string {
	return fmt.Sprintf("%d questions over new connections and %d in lasting flows, %d failures",
		r.asked, r.inFlows, len(r.failures))
}

// newUsers are a pod that serves as well, the node, and the host outside, each in
// every way.
func newUsers(t *testing.T, l *lab.Lab, services []daemon.Service) (users []*user) {
	t.Helper()
	counted := &ports{}
	for _, w := range daemon.Transports() {
		for _, from := range []*lab.Host{l.Pods[0].Host, l.Node.Host, l.Outside} {
			u := &user{way: w, from: from, ports: counted}
			for _, s := range services {
				for _, k := range daemon.Kinds {
					if s.Has(k) {
						u.targets = append(u.targets, u.target(t, l, s, k))
					}
				}
			}
			u.previous = make([]string, len(u.targets))
			users = append(users, u)
		}
	}
	return users
}

func (u *user) target(t *testing.T, l *lab.Lab, s daemon.Service, k model.Kind) target {
	t.Helper()
	out := target{service: s, kind: k, to: s.AddrPort(l.Node, u.way.Family, k, 0), always: s.Affinity > 0 || s.Scheduler == "sh"}
	local := s.LocalInside && k == model.KindClusterIP || s.LocalOutside && k != model.KindClusterIP && u.from == l.Outside
	for _, h := range s.Endpoints {
		if !local || slices.ContainsFunc(l.Pods, func(p *lab.Pod) bool { return p.Host == h }) {
			out.by = append(out.by, h.Name)
		}
	}
	if u.keepsFlow(s) {
		flow, err := u.from.Flow(u.way.Protocol, u.lastingPort(), out.to)
		if err != nil {
			t.Fatal(err)
		}
		out.flow = flow
	}
	return out
}

// keepsFlow shares the Services among the hosts, so that somebody keeps a flow by
// each address.
func (u *user) keepsFlow(s daemon.Service) bool { return s.Number%3 == len(u.from.Name)%3 }

// freshPort is one that was not asked from for long, between the proxy's own ports
// and the node ports.
func (u *user) freshPort() netip.AddrPort {
	return netip.AddrPortFrom(netip.Addr{}, uint16(11000+u.ports.fresh.Add(1)%19000))
}

// lastingPort is one that nobody else ever has.
func (u *user) lastingPort() netip.AddrPort {
	return netip.AddrPortFrom(netip.Addr{}, uint16(9000+u.ports.lasting.Add(1)))
}

// work asks until ctx ends.
func (u *user) work(ctx context.Context) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		i := n % len(u.targets)
		u.ask(i)
		if u.targets[i].flow != nil {
			u.goOn(i)
		}
	}
}

// ask makes a new connection.
func (u *user) ask(i int) {
	t := &u.targets[i]
	a, err := u.from.AskFrom(u.way.Protocol, u.freshPort(), t.to, answer)
	u.record.asked++
	switch {
	case err != nil || a.Outcome != lab.Answered || !slices.Contains(t.by, a.By):
		u.fail(t, "new connection: %s, %v; want an answer by %v", a, err, t.by)
	case t.always && u.previous[i] != "" && u.previous[i] != a.By:
		u.fail(t, "new connection: %s, and by %s before", a, u.previous[i])
	}
	u.previous[i] = a.By
}

// goOn asks in the lasting flow.
func (u *user) goOn(i int) {
	t := &u.targets[i]
	a, err := t.flow.Ask(answer)
	u.record.inFlows++
	switch {
	case err != nil || a.Outcome != lab.Answered:
		u.fail(t, "lasting flow: %s, %v", a, err)
	case t.flowBy != "" && t.flowBy != a.By:
		u.fail(t, "lasting flow: %s, and by %s before", a, t.flowBy)
	}
	t.flowBy = a.By
}

func (u *user) fail(t *target, format string, args ...any) {
	u.record.failures = append(u.record.failures, fmt.Sprintf("%s, %s asks %s (%s of %s, affinity %s, scheduler %q): %s",
		time.Now().Format("05.000"), u.from, t.to, t.kind, t.service.Name, t.service.Affinity, t.service.Scheduler,
		fmt.Sprintf(format, args...)))
}
