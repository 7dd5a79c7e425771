// Package clients keeps asking Services while a test changes something else, and
// fails the test if any answer is missing, late or from the wrong endpoint.
//
// A pod, the node and the host outside each ask every address of every Service,
// over every transport: over new connections, and in flows that last.
package clients

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	stdsync "sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	// answer is the timeout of a question.
	answer = 5 * time.Second
	// resend is when TCP sends its first packet again: an answer that took this long
	// came to a second packet, because the first was lost. UDP and the lab's SCTP send
	// nothing again, so if their answers are late, the whole machine was suspended.
	resend = time.Second
	// firstFlowPort is the first local port of flows, below [lab.Host.FreshPort].
	firstFlowPort = 9000
)

// Options describe the load.
type Options struct {
	// Pod is the pod that asks. It may be an endpoint.
	Pod *lab.Pod
	// Pace is the time between two questions of one host over one transport.
	Pace time.Duration
	// AllFlows makes every host keep a flow to every address. Otherwise each Service
	// has flows from one of the hosts.
	AllFlows bool
}

// Clients are clients that ask until [Clients.Stop].
type Clients struct {
	all   []*client
	flows uint16 // so many exist
	stop  context.CancelFunc
	group errgroup.Group
}

// Start starts the clients. All of the Services must be programmed, and be allowed
// to be reached by all clients.
func Start(t testing.TB, l *lab.Lab, services []daemon.Service, o Options) *Clients {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &Clients{stop: stop}
	for _, transport := range daemon.Transports() {
		for i, from := range []*lab.Host{o.Pod.Host, l.Node.Host, l.Outside} {
			u := &client{Transport: transport, from: from, pace: o.Pace}
			for _, s := range services {
				for _, k := range daemon.Kinds {
					if s.Has(k) {
						x := u.target(l, s, k)
						if o.AllFlows || s.Number%3 == i {
							u.openFlow(t, x, firstFlowPort+c.flows)
							c.flows++
						}
						u.targets = append(u.targets, x)
					}
				}
			}
			c.all = append(c.all, u)
		}
	}
	for _, u := range c.all {
		c.group.Go(func() error { u.run(ctx); return nil })
	}
	t.Cleanup(func() { stop(); _ = c.group.Wait() }) // before the lab closes
	return c
}

// Stop lets the clients go on until each transport, and the lasting flows, were asked a number
// of times, or a question failed. It stops them then and fails the test for each failure.
func (c *Clients) Stop(t testing.TB, least int) {
	t.Helper()
	eventually.Succeeds(t, "ask often enough", func() error { return c.enough(least) })
	c.stop()
	_ = c.group.Wait() // clients record their failures
	var all record
	for _, u := range c.all {
		all.add(u.recorded())
	}
	if all.slowest < resend/2 {
		all.failures = append(all.failures, all.late...)
	}
	t.Logf("%d new connections and %d questions in lasting flows, %d failures; the slowest answer over UDP and SCTP took %s, %d over TCP took more than %s",
		all.asked, all.inFlows, len(all.failures), all.slowest.Round(time.Millisecond), len(all.late), resend)
	for _, failure := range all.failures[:min(len(all.failures), 20)] {
		t.Error(failure)
	}
}

// enough returns an error unless each transport and the lasting flows were asked a number of
// times, or a question failed.
func (c *Clients) enough(least int) error {
	asked, inFlows := map[daemon.Transport]int{}, 0
	for _, u := range c.all {
		r := u.recorded()
		if len(r.failures) > 0 {
			return nil
		}
		asked[u.Transport] += r.asked
		inFlows += r.inFlows
	}
	for _, transport := range daemon.Transports() {
		if n := asked[transport]; n < least {
			return fmt.Errorf("%s: only %d connections, want at least %d", transport, n, least)
		}
	}
	if inFlows < least {
		return fmt.Errorf("only %d questions in lasting flows, want at least %d", inFlows, least)
	}
	return nil
}

// client asks from one host over one transport.
type client struct {
	daemon.Transport
	from    *lab.Host
	pace    time.Duration
	targets []*target
	mu      stdsync.Mutex // guards record
	record
}

// recorded returns what was recorded until now.
func (u *client) recorded() record {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.record
}

type target struct {
	says   string
	to     netip.AddrPort
	by     []string // which hosts may answer
	sticky bool     // always the same host answers
	last   string   // the host that answered last
	flow   *lab.Flow
	flowBy string
}

// record counts questions and failures.
type record struct {
	asked, inFlows int
	slowest        time.Duration // over UDP and SCTP
	failures       []string
	late           []string // failures, unless the machine was suspended
}

func (r *record) add(o record) {
	r.asked += o.asked
	r.inFlows += o.inFlows
	r.slowest = max(r.slowest, o.slowest)
	r.failures = append(r.failures, o.failures...)
	r.late = append(r.late, o.late...)
}

func (u *client) target(l *lab.Lab, s daemon.Service, k model.Kind) *target {
	to := s.AddrPort(l.Node, u.Family, k, 0)
	out := &target{
		to: to, sticky: s.Affinity > 0 || s.Scheduler == "sh",
		says: fmt.Sprintf("%s, %s of %s (affinity %s, scheduler %q)", to, k, s.Name, s.Affinity, s.Scheduler),
	}
	local := s.LocalInside && k == model.KindClusterIP || s.LocalOutside && k != model.KindClusterIP && u.from == l.Outside
	for i, h := range s.Endpoints {
		if s.Drained(i) || s.StandsBy(i) {
			continue
		}
		if !local || slices.ContainsFunc(l.Pods, func(p *lab.Pod) bool { return p.Host == h }) {
			out.by = append(out.by, h.Name)
		}
	}
	return out
}

func (u *client) openFlow(t testing.TB, x *target, port uint16) {
	t.Helper()
	flow, err := u.from.Flow(u.Protocol, netip.AddrPortFrom(netip.Addr{}, port), x.to)
	if err != nil {
		t.Fatal(err)
	}
	x.flow = flow
}

// run asks one target after the other until ctx ends.
func (u *client) run(ctx context.Context) {
	ticker := time.NewTicker(u.pace)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		i, round := n%len(u.targets), n/len(u.targets)
		x := u.targets[i]
		u.ask(x)
		if x.flow != nil && round%3 == i%3 { // a third of the flows in each round
			u.askInFlow(x)
		}
	}
}

// ask asks over a new connection.
func (u *client) ask(x *target) {
	a, err := u.from.AskFresh(u.Protocol, netip.Addr{}, x.to, answer)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked++
	u.check(x, "new connection", a, err)
	if x.sticky && x.last != "" && x.last != a.By {
		u.fail(x, "new connection: %s, and by %s before", a, x.last)
	}
	x.last = cmp.Or(a.By, x.last)
}

// askInFlow asks in the lasting flow.
func (u *client) askInFlow(x *target) {
	a, err := x.flow.Ask(answer)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.inFlows++
	u.check(x, "lasting flow", a, err)
	if x.flowBy != "" && x.flowBy != a.By {
		u.fail(x, "lasting flow: %s, and by %s before", a, x.flowBy)
	}
	x.flowBy = cmp.Or(a.By, x.flowBy)
}

// check wants an answer to the first packet, by one of the Service's endpoints.
func (u *client) check(x *target, over string, a lab.Answer, err error) {
	if err != nil || a.Outcome != lab.Answered || !slices.Contains(x.by, a.By) {
		u.fail(x, "%s: %s after %s, %v; want an answer by %v", over, a, a.Took.Round(time.Millisecond), err, x.by)
	}
	switch {
	case u.Protocol != model.TCP:
		u.slowest = max(u.slowest, a.Took)
	case a.Took >= resend:
		u.late = append(u.late, u.message(x, "%s: only after %s", over, a.Took))
	}
}

func (u *client) fail(x *target, format string, args ...any) {
	u.failures = append(u.failures, u.message(x, format, args...))
}

func (u *client) message(x *target, format string, args ...any) string {
	return fmt.Sprintf("%s, %s asks %s over %s: %s", time.Now().Format("05.000"), u.from, x.says, u.Transport, fmt.Sprintf(format, args...))
}
