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

// The load: changes of Services and of endpoints, each of which makes several
// requests of users, kubelets and controllers.
const (
	changesPerSecond = 50
	loadLasts        = time.Minute
)

// What must hold at its end.
const (
	// stale is how long an endpoint that is gone may still get new connections:
	// the controllers' time, and a busy machine's.
	stale = 10 * time.Second
	// programmedWithin is when a Service must be served by both nodes. Clients ask
	// each Service about once a second.
	programmedWithin = clustertest.Patience
	// equalWithin is when the rule set is what it should be after the last change.
	equalWithin = 10 * time.Second
)

// load is what changes, and whom clients ask meanwhile.
type load struct {
	*twoNodes
	crowd  *traffic.Crowd
	tokens chan struct{} // one for each change
	hosts  map[string]string

	mu                 stdsync.Mutex
	served             []*served
	changes, questions int
}

// served is a Service, with all answers it gave, and when its endpoints were
// there.
type served struct {
	*traffic.Asked
	mu      stdsync.Mutex
	answers []given
	spans   map[string][]span // by host
}

// given is an answer: by whom, to a question of when.
type given struct {
	by    string
	asked time.Time
}

// span is from before an endpoint came to after it went; to is zero as long as it
// is there.
type span struct{ from, to time.Time }

// TestRulesFollowUnderLoad changes Services and
// endpoints as the constants above say, while clients on both nodes and outside keep
// asking every Service that has ready endpoints.
func TestRulesFollowUnderLoad(t *testing.T) {
	t.Parallel()
	clustertest.Program(t)
	const pods = 6
	c := prepareTwoNodes(t, clustertest.Alone, pods)
	for i, n := range []*lab.Node{c.Lab.Node, c.Lab.Remote} {
		c.proxies[i] = c.Proxy(t, n, "--profiling")
	}
	l := newLoad(c, pods)
	clustertest.Must(t, l.run(t.Context(), 2*time.Second)) // what grows once has grown then
	l.empty(t)
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
	c.equal(t, equalWithin)
	l.empty(t)
	for i, p := range c.proxies {
		noLeak(t, p, before[i])
		if failures := metric(t, p, "kubeproxy_sync_proxy_rules_nftables_sync_failures_total"); failures > 0 {
			t.Errorf("%s counts %v failures", p.Truth.Host, failures)
		}
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

// places are all that serve, in random order.
func (l *load) places() []objects.Place {
	all := slices.DeleteFunc(l.Places(), func(p objects.Place) bool { return l.hosts[p.Addrs[0].String()] == "" })
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// empty removes all Services, and waits until nobody knows them.
func (l *load) empty(t *testing.T) {
	t.Helper()
	ctx := clustertest.Context(t)
	clustertest.Must(t, l.ns.Delete(ctx))
	l.ns = l.Namespace(t)
	l.settled(t)
}

// run runs the load for a time, and everything to its end.
func (l *load) run(ctx context.Context, lasts time.Duration) error {
	// All that can be due find room, so that a pause is made up for.
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
	}{{"rolls", 10, l.rolls}, {"lives", 16, l.lives}, {"edits", 4, l.edits}} {
		for i := range kind.count {
			group.Go(func() error {
				if err := kind.do(ctx, fmt.Sprintf("%s-%d", kind.name, i)); !errors.Is(err, errOver) {
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
		err = errors.Join(err, s.fresh())
	}
	return err
}

// pace gives a token for each change, and closes when it is over.
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

// errOver says that there are no more changes to make.
var errOver = errors.New("the load is over")

// change waits for its turn, and makes a change.
func (l *load) change(do func() error) error {
	if _, ok := <-l.tokens; !ok {
		return errOver
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

// ask makes clients ask a Service.
func (l *load) ask(s *corev1.Service) *served {
	out := &served{spans: map[string][]span{}}
	t := traffic.Service(s, port)
	t.Check = func(a lab.Answer, asked time.Time) error {
		out.mu.Lock()
		defer out.mu.Unlock()
		out.answers = append(out.answers, given{a.By, asked})
		return nil
	}
	out.Asked = l.crowd.Add(t)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.served = append(l.served, out)
	return out
}

// come notes that from a moment on there may be endpoints at the places.
func (s *served) come(l *load, from time.Time, places []objects.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range places {
		host := l.hosts[p.Addrs[0].String()]
		if n := len(s.spans[host]); n == 0 || !s.spans[host][n-1].to.IsZero() {
			s.spans[host] = append(s.spans[host], span{from: from})
		}
	}
}

// stay notes that those at the places are the only ones now.
func (s *served) stay(l *load, places []objects.Place) {
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

// fresh returns an error if somebody answered who had been gone for long, or had
// not come yet.
func (s *served) fresh() error {
	for _, a := range s.answers {
		if !slices.ContainsFunc(s.spans[a.by], func(in span) bool {
			return a.asked.Add(traffic.Timeout).After(in.from) && (in.to.IsZero() || a.asked.Before(in.to.Add(stale)))
		}) {
			return fmt.Errorf("%s was asked at %s and answered by %s, which was no endpoint then: %v",
				s.Name, a.asked.Format("15:04:05.000"), a.by, s.spans[a.by])
		}
	}
	return nil
}

// rolls is a Service that is always there, whose Pods are scaled and replaced.
func (l *load) rolls(ctx context.Context, name string) error {
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
		served.come(l, start, w.Places())
		served.stay(l, w.Places())
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
			// One endpoint more, one less: two changes.
			if err = l.change(func() error { return nil }); err == nil {
				err = l.change(func() error { return noting(func() error { return w.RollOne(ctx) }) })
			}
		}
	}
	return errors.Join(err, served.programmed(ctx), l.ns.AwaitEndpoints(ctx, name, w.Len()))
}

// lives are Services that come and go, one after the other. Their Pods become
// unready and ready again, and one is replaced.
func (l *load) lives(ctx context.Context, prefix string) error {
	for n := 0; ; n++ {
		if err := l.life(ctx, fmt.Sprintf("%s-%d", prefix, n)); err != nil {
			return err
		}
	}
}

func (l *load) life(ctx context.Context, name string) error {
	places := l.places()[:3]
	var s *corev1.Service
	if err := l.change(func() (err error) {
		s, err = l.ns.CreateService(ctx, objects.Service(name, objects.Ports(port, targetPort)...))
		return err
	}); err != nil {
		return err
	}
	served := l.ask(s)
	served.come(l, time.Now(), places)
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

// programmed waits until all clients had answers, from when on none may fail.
func (s *served) programmed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, programmedWithin)
	defer cancel()
	return s.Await(ctx)
}

// edits is a Service whose EndpointSlices somebody writes.
func (l *load) edits(ctx context.Context, name string) error {
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
		served.come(l, time.Now(), places)
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
		served.stay(l, places)
		write = l.ns.UpdateSlice
	}
}
