package schedulers

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// A rollout opens long-lived connections at a constant rate, while an endpoint restarts
// and others are added, and counts the connections of each endpoint at the end.
type rollout struct {
	client      *lab.Host
	endpoints   []*lab.Host // the last addedEndpoints of them are added
	protocol    model.Protocol
	to          netip.AddrPort
	connections int
	over        time.Duration
	// setEndpoints sets the endpoints of new connections, and returns when that is done.
	setEndpoints func([]*lab.Host)

	servers map[*lab.Host]*lab.Server
	flows   []*lab.Flow
	by      []string // which endpoint has the flow
}

const (
	initialEndpoints, addedEndpoints = 10, 5
	// openFiles is enough for both ends of all connections. Systems allow 4,096 or fewer.
	openFiles = 16384
)

// newRollout returns the rollout that schedulers are compared by.
func newRollout(l *lab.Lab, endpoints []*lab.Host, to netip.AddrPort, setEndpoints func([]*lab.Host)) *rollout {
	return &rollout{
		client: l.Outside, endpoints: endpoints, protocol: model.TCP, to: to,
		connections: 2000, over: time.Minute, setEndpoints: setEndpoints,
	}
}

// newRolloutLab returns a lab, and pods of it for the endpoints of a rollout. Nothing
// serves yet.
func newRolloutLab(t *testing.T) (l *lab.Lab, endpoints []*lab.Host) {
	t.Helper()
	l = labtest.New(t, lab.Options{Pods: initialEndpoints + addedEndpoints})
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: openFiles, Max: openFiles}); err != nil {
		t.Fatal(err)
	}
	daemon.RouteServices(t, l, l.Node)
	for _, pod := range l.Pods {
		endpoints = append(endpoints, pod.Host)
	}
	return l, endpoints
}

// run returns how many connections the endpoint with the most has at the end, in relation
// to the mean. The endpoint that
// restarts is drained, closes its connections, which the client opens again immediately,
// and is back after a thirtieth of the time.
func (r *rollout) run(t *testing.T) (maxToMean float64) {
	t.Helper()
	r.servers = map[*lab.Host]*lab.Server{}
	defer r.close(t)
	for _, h := range r.endpoints {
		r.serve(t, h)
	}
	initial := r.endpoints[:len(r.endpoints)-addedEndpoints]
	began, n := time.Now(), r.connections

	r.setEndpoints(initial)
	r.openUntil(t, began, n/3)
	r.setEndpoints(initial[1:])
	r.stop(t, initial[0])
	r.openUntil(t, began, n/3+n/30)
	r.serve(t, initial[0])
	r.setEndpoints(initial)
	r.openUntil(t, began, n/2)
	r.setEndpoints(r.endpoints)
	r.openUntil(t, began, n)

	counts := r.count(t)
	t.Logf("%d connections over %v: %v", n, time.Since(began).Round(time.Second/10), counts)
	most := slices.Max(slices.Collect(maps.Values(counts)))
	return float64(most*len(counts)) / float64(n)
}

func (r *rollout) serve(t *testing.T, h *lab.Host) {
	t.Helper()
	s, err := h.Serve(r.protocol, daemon.TargetPort)
	if err != nil {
		t.Fatal(err)
	}
	r.servers[h] = s
}

// stop ends a server, and opens its connections again.
func (r *rollout) stop(t *testing.T, h *lab.Host) {
	t.Helper()
	if err := r.servers[h].Close(); err != nil {
		t.Fatal(err)
	}
	for i, by := range r.by {
		if by != h.Name {
			continue
		}
		if err := r.flows[i].Close(); err != nil {
			t.Fatal(err)
		}
		r.flows[i], r.by[i] = r.open(t)
	}
}

// openUntil opens connections at the constant rate, until there are n.
func (r *rollout) openUntil(t *testing.T, began time.Time, n int) {
	t.Helper()
	for len(r.flows) < n {
		<-time.After(time.Until(began.Add(r.over * time.Duration(len(r.flows)) / time.Duration(r.connections))))
		flow, by := r.open(t)
		r.flows, r.by = append(r.flows, flow), append(r.by, by)
	}
}

// open opens a connection from a port that had none, which the kernel would take for the
// connection from before.
func (r *rollout) open(t *testing.T) (flow *lab.Flow, by string) {
	t.Helper()
	flow, err := r.client.Flow(r.protocol, netip.AddrPortFrom(netip.Addr{}, r.client.FreshPort()), r.to)
	if err != nil {
		t.Fatal(err)
	}
	return flow, r.ask(t, flow)
}

func (r *rollout) ask(t *testing.T, flow *lab.Flow) (by string) {
	t.Helper()
	a, err := flow.Ask(answer)
	if err != nil || a.Outcome != lab.Answered {
		t.Fatalf("%s: %s, %v", r.to, a, err)
	}
	return a.By
}

// count asks over every connection once more: none may have been disturbed. Of SCTP it does
// not, because every socket of the lab receives the packets of all connections, and one that
// was not read for long has no room for its own.
func (r *rollout) count(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, h := range r.endpoints {
		counts[h.Name] = 0
	}
	for i, flow := range r.flows {
		by := r.by[i]
		if r.protocol != model.SCTP {
			by = r.ask(t, flow)
		}
		if by != r.by[i] {
			t.Errorf("a connection to %s is answered by %s", r.by[i], by)
		}
		counts[by]++
	}
	return counts
}

func (r *rollout) close(t *testing.T) {
	t.Helper()
	for _, flow := range r.flows {
		if err := flow.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, s := range r.servers {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
