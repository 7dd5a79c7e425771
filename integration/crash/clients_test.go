package crash

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	// answer is how long an answer may take.
	answer = 5 * time.Second
	// resent is when TCP sends its first packet again: an answer that took this long
	// came to a second packet, because the first was lost. UDP and the lab's SCTP send
	// nothing again, so that a late answer of theirs tells of a machine that stood
	// still for so long.
	resent = time.Second
	// pace is how often each client asks.
	pace = 20 * time.Millisecond
	// flowEach is after how many questions over connections of their own one goes
	// into a lasting flow.
	flowEach = 3
)

// client asks Services from one host in one way, over and over.
type client struct {
	daemon.Transport
	from    *lab.Host
	ports   *ports
	targets []*target
	record  record
}

// ports counts the ports that all clients have asked from.
type ports struct{ fresh, lasting atomic.Uint32 }

// Fresh ports are between the proxy's own and the node ports, and come again when
// they are long forgotten; a lasting one is never given twice.
func (p *ports) next() netip.AddrPort {
	return netip.AddrPortFrom(netip.Addr{}, uint16(12000+p.fresh.Add(1)%18000))
}

func (p *ports) nextLasting() netip.AddrPort {
	return netip.AddrPortFrom(netip.Addr{}, uint16(10300+p.lasting.Add(1)))
}

// target is one address of a Service, as a client sees it.
type target struct {
	says   string
	to     netip.AddrPort
	by     []string // who may answer
	always bool     // the same answers each time
	last   string   // who answered
	flow   *lab.Flow
	flowBy string
}

// record is what came of questions.
type record struct {
	asked    map[string]int // over connections of their own, by way
	inFlows  int
	slowest  time.Duration // of UDP and SCTP
	failures []string
	late     []string // failures, unless the machine stood still
}

func (r *record) add(o record) {
	for way, n := range o.asked {
		r.asked[way] += n
	}
	r.inFlows += o.inFlows
	r.slowest = max(r.slowest, o.slowest)
	r.failures = append(r.failures, o.failures...)
	r.late = append(r.late, o.late...)
}

// crowd are clients at work.
type crowd struct {
	clients []*client
	stop    context.CancelFunc
	group   errgroup.Group
}

// ask starts a pod, the node, and the host outside as clients in every way. They
// ask until they are told to stop.
func ask(t *testing.T, l *lab.Lab, services []daemon.Service) *crowd {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c, counted := &crowd{stop: stop}, &ports{}
	for _, w := range daemon.Transports() {
		for _, from := range []*lab.Host{l.Pods[len(l.Pods)-1].Host, l.Node.Host, l.Outside} {
			u := &client{Transport: w, from: from, ports: counted, record: record{asked: map[string]int{}}}
			for _, s := range services {
				for _, k := range daemon.Kinds {
					if s.Has(k) {
						u.targets = append(u.targets, u.target(t, l, s, k))
					}
				}
			}
			c.clients = append(c.clients, u)
		}
	}
	for _, u := range c.clients {
		c.group.Go(func() error { u.work(ctx); return nil })
	}
	t.Cleanup(func() { stop(); _ = c.group.Wait() }) // before the lab closes
	return c
}

// target is an address with a lasting flow to it.
func (u *client) target(t *testing.T, l *lab.Lab, s daemon.Service, k model.Kind) *target {
	t.Helper()
	to := s.AddrPort(l.Node, u.Family, k, 0)
	out := &target{to: to, says: fmt.Sprintf("%s, %s of %s", to, k, s.Name), always: s.Affinity > 0 || s.Scheduler == "sh"}
	onlyHere := s.LocalInside && k == model.KindClusterIP || s.LocalOutside && k != model.KindClusterIP && u.from == l.Outside
	for _, h := range s.Endpoints {
		if !onlyHere || slices.ContainsFunc(l.Pods, func(p *lab.Pod) bool { return p.Host == h }) {
			out.by = append(out.by, h.Name)
		}
	}
	flow, err := u.from.Flow(u.Protocol, u.ports.nextLasting(), to)
	if err != nil {
		t.Fatal(err)
	}
	out.flow = flow
	return out
}

func (u *client) work(ctx context.Context) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// Neighbours among the targets are Services of different kinds.
		x := u.targets[n%len(u.targets)]
		u.ask(x)
		if n%flowEach == 0 {
			u.goOn(u.targets[n/flowEach%len(u.targets)])
		}
	}
}

// ask asks over a connection of its own.
func (u *client) ask(x *target) {
	a, err := u.from.AskFrom(u.Protocol, u.ports.next(), x.to, answer)
	u.record.asked[u.String()]++
	u.judge(x, "new connection", a, err)
	if x.always && x.last != "" && x.last != a.By {
		u.fail(x, "new connection: %s, and by %s before", a, x.last)
	}
	x.last = cmp.Or(a.By, x.last)
}

// goOn asks in the lasting flow.
func (u *client) goOn(x *target) {
	a, err := x.flow.Ask(answer)
	u.record.inFlows++
	u.judge(x, "lasting flow", a, err)
	if x.flowBy != "" && x.flowBy != a.By {
		u.fail(x, "lasting flow: %s, and by %s before", a, x.flowBy)
	}
	x.flowBy = cmp.Or(a.By, x.flowBy)
}

// judge wants an answer to the first packet, by one of the Service's endpoints.
func (u *client) judge(x *target, over string, a lab.Answer, err error) {
	if err != nil || a.Outcome != lab.Answered || !slices.Contains(x.by, a.By) {
		u.fail(x, "%s: %s after %s, %v; want an answer by %v", over, a, a.Took.Round(time.Millisecond), err, x.by)
	}
	switch {
	case u.Protocol != model.TCP:
		u.record.slowest = max(u.record.slowest, a.Took)
	case a.Took >= resent:
		u.record.late = append(u.record.late, u.says(x, fmt.Sprintf("%s: only after %s", over, a.Took)))
	}
}

func (u *client) fail(x *target, format string, args ...any) {
	u.record.failures = append(u.record.failures, u.says(x, fmt.Sprintf(format, args...)))
}

func (u *client) says(x *target, what string) string {
	return fmt.Sprintf("%s, %s asks %s over %s: %s", time.Now().Format("05.000"), u.from, x.says, u.Transport, what)
}

// end stops the clients and checks that they failed in nothing, and that they
// asked at least so many times in each way.
func (c *crowd) end(t *testing.T, least int) {
	t.Helper()
	c.stop()
	_ = c.group.Wait() // clients note what goes wrong
	all := record{asked: map[string]int{}}
	for _, u := range c.clients {
		all.add(u.record)
	}
	total := 0
	for _, way := range slices.Sorted(maps.Keys(all.asked)) {
		total += all.asked[way]
		if all.asked[way] < least {
			t.Errorf("%s: only %d connections, want at least %d", way, all.asked[way], least)
		}
	}
	if all.slowest < resent/2 {
		all.failures = append(all.failures, all.late...)
	}
	t.Logf("%d new connections and %d questions in lasting flows, %d failures; the slowest answer but TCP's took %s, %d of TCP over %s",
		total, all.inFlows, len(all.failures), all.slowest.Round(time.Millisecond), len(all.late), resent)
	for _, failure := range all.failures[:min(len(all.failures), 20)] {
		t.Error(failure)
	}
	if len(all.asked) != len(daemon.Transports()) || all.inFlows < least {
		t.Errorf("%d ways, %d questions in lasting flows: too few to say anything", len(all.asked), all.inFlows)
	}
}
