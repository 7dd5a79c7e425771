package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	stdsync "sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// The load: changes of Services and of endpoints, each of which leads to several
// requests of users, kubelets and controllers.
const (
	changesPerSecond = 50
	loadLasts        = 30 * time.Second
)

// Limits for the proxies under load.
const (
	// maxStale is how long a removed endpoint may still get new connections, the time of
	// the controllers on a busy machine included.
	maxStale = 10 * time.Second
	// programmedWithin is when both nodes must serve a Service. Clients ask each Service
	// about once a second.
	programmedWithin = clustertest.Patience
	// equalWithin is when the rule set must be correct after the last change.
	equalWithin = 10 * time.Second
)

// load changes Services and endpoints while clients ask them.
type load struct {
	*twoNodes
	crowd  *traffic.Crowd
	tokens chan struct{} // one for each change
	hosts  map[string]string

	mu                 stdsync.Mutex
	served             []*loadedService
	changes, questions int
}

// loadedService is a Service, with all answers from it, and the times of its endpoints.
type loadedService struct {
	*traffic.Asked
	mu      stdsync.Mutex
	answers []answer
	spans   map[string][]span // by host
}

// answer is who answered a request, and when it was sent.
type answer struct {
	by    string
	asked time.Time
}

// span is the time from before an endpoint was added to after it was removed; to is zero
// until then.
type span struct{ from, to time.Time }

// TestRulesFollowUnderLoad changes Services and endpoints while clients on both nodes and
// outside keep asking every Service with ready endpoints. No request may fail, and
// nothing may leak.
func TestRulesFollowUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("of the long suite")
	}
	t.Parallel()
	clustertest.Program(t)
	const pods = 6
	c := prepareTwoNodes(t, clustertest.Alone, pods)
	for i, n := range []*lab.Node{c.Lab.Node, c.Lab.Remote} {
		c.proxies[i] = c.Proxy(t, n, "--profiling")
	}
	l := newLoad(c, pods)
	clustertest.Must(t, l.run(t.Context(), 2*time.Second)) // for what grows only once
	l.deleteServices(t)
	var before [len(c.proxies)]consumption
	for i, p := range c.proxies {
		before[i] = consumed(t, p)
	}

	start := time.Now()
	clustertest.Must(t, l.run(t.Context(), loadLasts))
	took := time.Since(start)
	t.Logf("%d changes in %s, %d questions", l.changes, took.Round(time.Millisecond), l.questions)
	if rate := float64(l.changes) / took.Seconds(); rate < changesPerSecond/4 {
		t.Errorf("%.0f changes a second, want %d: the machine is too slow for this test", rate, changesPerSecond)
	}
	c.awaitEqual(t, equalWithin)
	l.deleteServices(t)
	for i, p := range c.proxies {
		noLeak(t, p, before[i])
		if failures := metric(t, p, "kubeproxy_sync_proxy_rules_nftables_sync_failures_total"); failures > 0 {
			t.Errorf("%s counts %v failures", p.Truth.Host, failures)
		}
		nothingSilent(t, p)
	}
}

// nothingSilent checks that passive health checks found no endpoint that does not answer.
func nothingSilent(t *testing.T, p *clustertest.Proxy) {
	t.Helper()
	if changes := metric(t, p, "kubevmap_passive_health_changes_total"); changes > 0 {
		t.Errorf("%s: passive health checks found %v endpoints that do not answer, or answer again", p.Truth.Host, changes)
	}
}

func metric(t *testing.T, p *clustertest.Proxy, name string) float64 {
	t.Helper()
	v, err := p.Metric(name)
	clustertest.Must(t, err)
	return v
}

func newLoad(c *twoNodes, pods int) *load {
	l := &load{twoNodes: c, hosts: map[string]string{}}
	for _, all := range [][]*lab.Pod{c.Lab.Pods[:pods], c.Lab.RemotePods[:pods]} {
		for _, p := range all {
			l.hosts[p.Addr(model.IPv4).String()] = p.Name
		}
	}
	return l
}

// places returns the places of all serving pods, in random order.
func (l *load) places() []objects.Place {
	all := slices.DeleteFunc(l.Places(), func(p objects.Place) bool { return l.hosts[p.Addrs[0].String()] == "" })
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// deleteServices removes all Services, and waits until the proxies have done so.
func (l *load) deleteServices(t *testing.T) {
	t.Helper()
	ctx := clustertest.Context(t)
	clustertest.Must(t, l.ns.Delete(ctx))
	l.ns = l.Namespace(t)
	l.awaitRules(t)
}

// run runs the load for some time, and completes every change.
func (l *load) run(ctx context.Context, lasts time.Duration) error {
	// With room for all tokens, so that changes catch up after a pause.
	l.crowd, l.tokens = traffic.Start(l.clients...), make(chan struct{}, 1+int(lasts.Seconds()*changesPerSecond))
	l.changes, l.served = 0, nil
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	go l.pace(over)
	group, ctx := errgroup.WithContext(ctx)
	for _, kind := range []struct {
		name  string
		count int
		do    func(context.Context, string) error
	}{{"rolls", 10, l.rollingServices}, {"lives", 16, l.shortLivedServices}, {"edits", 4, l.manualSlices}} {
		for i := range kind.count {
			group.Go(func() error {
				if err := kind.do(ctx, fmt.Sprintf("%s-%d", kind.name, i)); !errors.Is(err, errLoadOver) {
					return err
				}
				return nil
			})
		}
	}
	err := group.Wait()
	asked, failed := l.crowd.Stop()
	l.questions = asked
	err = errors.Join(err, failed)
	for _, s := range l.served {
		err = errors.Join(err, s.checkAnswers())
	}
	return err
}

// pace sends a token for each change, and closes the channel at the end.
func (l *load) pace(over context.Context) {
	ticker := time.NewTicker(time.Second / changesPerSecond)
	defer ticker.Stop()
	defer close(l.tokens)
	for {
		select {
		case <-over.Done():
			return
		case <-ticker.C:
			l.tokens <- struct{}{}
		}
	}
}

// errLoadOver means that there are no more changes to make.
var errLoadOver = errors.New("the load is over")

// change waits for a token, and makes a change.
func (l *load) change(do func() error) error {
	if _, ok := <-l.tokens; !ok {
		return errLoadOver
	}
	l.mu.Lock()
	l.changes++
	l.mu.Unlock()
	return do()
}

// makeChanges makes several, one after the other.
func (l *load) makeChanges(all ...func() error) error {
	for _, do := range all {
		if err := l.change(do); err != nil {
			return err
		}
	}
	return nil
}

// ask lets clients ask a Service from now on.
func (l *load) ask(s *corev1.Service) *loadedService {
	out := &loadedService{spans: map[string][]span{}}
	t := traffic.Service(s, port)
	t.Check = func(a lab.Answer, asked time.Time) error {
		out.mu.Lock()
		defer out.mu.Unlock()
		out.answers = append(out.answers, answer{a.By, asked})
		return nil
	}
	out.Asked = l.crowd.Add(t)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.served = append(l.served, out)
	return out
}

// endpointsAdded records that there may be endpoints at the places from a time on.
func (s *loadedService) endpointsAdded(l *load, from time.Time, places []objects.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range places {
		host := l.hosts[p.Addrs[0].String()]
		if n := len(s.spans[host]); n == 0 || !s.spans[host][n-1].to.IsZero() {
			s.spans[host] = append(s.spans[host], span{from: from})
		}
	}
}

// endpointsRemaining records that there are no endpoints but those at the places.
func (s *loadedService) endpointsRemaining(l *load, places []objects.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stay := map[string]bool{}
	for _, p := range places {
		stay[l.hosts[p.Addrs[0].String()]] = true
	}
	for host, all := range s.spans {
		if last := &all[len(all)-1]; last.to.IsZero() && !stay[host] {
			last.to = time.Now()
		}
	}
}

// checkAnswers returns an error if an endpoint answered before it was added, or long after
// it was removed.
func (s *loadedService) checkAnswers() error {
	for _, a := range s.answers {
		if !slices.ContainsFunc(s.spans[a.by], func(in span) bool {
			return a.asked.Add(traffic.Timeout).After(in.from) && (in.to.IsZero() || a.asked.Before(in.to.Add(maxStale)))
		}) {
			return fmt.Errorf("%s was asked at %s and answered by %s, which was no endpoint then: %v",
				s.Name, a.asked.Format("15:04:05.000"), a.by, s.spans[a.by])
		}
	}
	return nil
}

// rollingServices keeps a Service whose Pods are scaled and replaced.
func (l *load) rollingServices(ctx context.Context, name string) error {
	const least, most = 2, 6
	s, err := l.ns.CreateService(ctx, objects.Service(name, objects.Ports(port, targetPort)...))
	if err != nil {
		return err
	}
	w := l.ns.NewWorkload(name, l.places()...)
	served := l.ask(s)
	noting := func(do func() error) error {
		start := time.Now()
		err := do()
		served.endpointsAdded(l, start, w.Places())
		served.endpointsRemaining(l, w.Places())
		return err
	}
	for err == nil {
		n := w.Len()
		switch {
		case n < least || n < most && rand.N(3) == 0:
			err = l.change(func() error { return noting(func() error { return w.Scale(ctx, n+1) }) })
		case n > least && rand.N(2) == 0:
			err = l.change(func() error { return noting(func() error { return w.Scale(ctx, n-1) }) })
		default:
			// An endpoint is added and one removed: two changes.
			if err = l.change(func() error { return nil }); err == nil {
				err = l.change(func() error { return noting(func() error { return w.RollOne(ctx) }) })
			}
		}
	}
	return errors.Join(err, served.programmed(ctx), l.ns.AwaitEndpoints(ctx, name, w.Len()))
}

// shortLivedServices creates and deletes Services, one after the other. Their Pods become
// unready and ready again, and one is replaced.
func (l *load) shortLivedServices(ctx context.Context, prefix string) error {
	for n := 0; ; n++ {
		if err := l.shortLivedService(ctx, fmt.Sprintf("%s-%d", prefix, n)); err != nil {
			return err
		}
	}
}

func (l *load) shortLivedService(ctx context.Context, name string) error {
	places := l.places()[:3]
	var s *corev1.Service
	if err := l.change(func() (err error) {
		s, err = l.ns.CreateService(ctx, objects.Service(name, objects.Ports(port, targetPort)...))
		return err
	}); err != nil {
		return err
	}
	served := l.ask(s)
	served.endpointsAdded(l, time.Now(), places)
	pod := func(i int) string { return fmt.Sprintf("%s-%d", name, i) }
	create := func(i int) func() error {
		return func() error { _, err := l.ns.CreatePod(ctx, pod(i), name, places[i]); return err }
	}
	ready := func(i int, is bool) func() error {
		return func() error { _, err := l.ns.SetReady(ctx, pod(i), places[i], is); return err }
	}
	remove := func(i int) func() error { return func() error { return l.ns.DeletePod(ctx, pod(i)) } }
	err := l.makeChanges(create(0), create(1))
	if err == nil {
		err = served.programmed(ctx)
	}
	if err == nil {
		err = l.makeChanges(ready(0, false), ready(0, true), create(2), remove(1), func() error {
			_, err := l.ns.ChangeService(ctx, name, func(s *corev1.Service) { s.Labels = map[string]string{"without": "meaning"} })
			return err
		})
	}
	served.Remove()
	if err == nil {
		err = l.makeChanges(remove(0), remove(2), func() error { return l.ns.DeleteService(ctx, name) })
	}
	return err
}

// programmed waits until all clients had answers. From then on no request may fail.
func (s *loadedService) programmed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, programmedWithin)
	defer cancel()
	return s.Await(ctx)
}

// manualSlices keeps a Service whose EndpointSlices no controller writes.
func (l *load) manualSlices(ctx context.Context, name string) error {
	service := objects.Service(name, objects.Ports(port, targetPort)...)
	service.Spec.Selector = nil
	s, err := l.ns.CreateService(ctx, service)
	if err != nil {
		return err
	}
	served := l.ask(s)
	write := l.ns.CreateSlice
	for {
		places := l.places()
		places = places[:1+rand.N(len(places))]
		served.endpointsAdded(l, time.Now(), places)
		for _, f := range model.Families {
			var addrs []netip.Addr
			for _, p := range places {
				addrs = append(addrs, p.Addrs[f])
			}
			slice := objects.Slice(name+"-"+strings.ToLower(f.String()), name, objects.Ports(port, targetPort), "", addrs...)
			if err := l.change(func() error { _, err := write(ctx, slice); return err }); err != nil {
				return errors.Join(err, served.programmed(ctx))
			}
		}
		served.endpointsRemaining(l, places)
		write = l.ns.UpdateSlice
	}
}
