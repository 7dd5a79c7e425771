package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"kube-vmap/model"
	"kube-vmap/sync/follow/demand"
)

var web = model.ServiceName{Namespace: "shop", Name: "web"}

// clientsOf returns a report of one Service.
func clientsOf(n int, waiting, complete bool) demand.Report {
	return demand.Report{
		Services: []demand.Service{{Namespace: web.Namespace, Name: web.Name, Clients: n, Waiting: waiting}}, Complete: complete,
	}
}

// TestDemandOfNodes has two nodes with demand for a Service.
func TestDemandOfNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDemands()
		d.unsettle(settleTime)
		signals, stop := d.watch(web)
		expect := func(what string, clients int, signal bool) {
			t.Helper()
			n, err := d.await(t.Context(), web, false)
			if n != clients || err != nil || (len(signals) > 0) != signal {
				t.Errorf("%s: %d clients, %v, %d signals, want %d and %t", what, n, err, len(signals), clients, signal)
			}
			for len(signals) > 0 {
				<-signals
			}
		}
		report := func(r *request, changes demand.Report) {
			t.Helper()
			if err := r.report(changes); err != nil {
				t.Error(err)
			}
		}
		one, two := d.begin("one", func() {}), d.begin("two", func() {})
		report(one, clientsOf(3, true, true))
		expect("clients wait", 3, true)
		report(one, clientsOf(5, false, false))
		expect("more clients", 5, false)
		report(two, clientsOf(2, false, true))
		expect("at another node", 7, false)
		report(two, clientsOf(2, true, false))
		expect("clients wait there, too", 7, true)
		report(two, clientsOf(-1, false, false))
		expect("none at another node", 5, false)

		again := d.begin("one", func() {})
		one.end()
		if err := one.report(clientsOf(0, false, false)); !errors.Is(err, errReplaced) {
			t.Errorf("report of an earlier request: %v", err)
		}
		<-time.After(time.Hour)
		expect("another request has begun", 5, false)
		report(again, demand.Report{Complete: true})
		expect("and has no demand", 0, true)

		report(again, clientsOf(maxClients+1, false, false))
		expect("too many to be true", maxClients, true)
		again.end()
		<-time.After(reconnectTime - time.Second)
		expect("the node may send another request", maxClients, false)
		<-time.After(2 * time.Second)
		expect("it has sent none", 0, true)
		if stop(); len(d.watchers) > 0 || len(d.total) > 0 || len(d.nodes) != 1 {
			t.Errorf("%d watchers, %d totals, %d nodes", len(d.watchers), len(d.total), len(d.nodes))
		}
	})
}

// TestNoDemandIsKnownLater has a program that has just started.
func TestNoDemandIsKnownLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDemands()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if n, err := d.await(ctx, web, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d clients before nodes can report, %v", n, err)
		}
		for range 2 { // the API server has not responded meanwhile
			d.unsettle(settleTime)
			began := time.Now()
			go func() {
				<-time.After(settleTime / 2)
				d.unsettle(settleTime)
			}()
			n, err := d.await(t.Context(), web, false)
			if took := time.Since(began); n != 0 || err != nil || took < 3*settleTime/2 || took > 2*settleTime {
				t.Errorf("%d clients, %v after %s", n, err, took)
			}
		}
		began := time.Now()
		d.unsettle(mountTime)
		d.unsettle(settleTime) // which is sooner
		if n, err := d.await(t.Context(), web, false); n != 0 || err != nil || time.Since(began) < mountTime {
			t.Errorf("%d clients, %v after %s, before kubelets have mounted a certificate", n, err, time.Since(began))
		}
		d.unsettle(settleTime)
		began = time.Now()
		if err := d.begin("one", func() {}).report(clientsOf(1, true, false)); err != nil {
			t.Fatal(err)
		}
		if n, err := d.await(t.Context(), web, false); n != 1 || err != nil || time.Since(began) > 0 {
			t.Errorf("%d clients, %v after %s", n, err, time.Since(began))
		}
	})
}

func TestInvalidReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDemands()
		r := d.begin("one", func() {})
		for _, s := range []demand.Service{
			{Namespace: strings.Repeat("n", maxName+1), Name: "web", Clients: 1}, {Namespace: "shop", Name: strings.Repeat("w", maxName+1), Clients: 1},
		} {
			if err := r.report(demand.Report{Services: []demand.Service{s}}); !errors.Is(err, errService) {
				t.Errorf("%s/%s: %v", s.Namespace, s.Name, err)
			}
		}
		s, first := []byte(strings.Repeat("a", maxName)), ""
		for i := range maxServices + 1 {
			for k := range 4 {
				s[k] = 'a' + byte(i>>(5*k))&31
			}
			err := r.report(demand.Report{Services: []demand.Service{{Namespace: "shop", Name: string(s), Clients: 1}}})
			if (err == nil) != (i < maxServices) {
				t.Fatalf("Service %d: %v", i, err)
			}
			if i == 0 {
				first = string(s)
			}
		}
		more := demand.Service{Namespace: "shop", Name: first, Clients: 2}
		if err := r.report(demand.Report{Services: []demand.Service{more}}); err != nil {
			t.Errorf("more clients: %v", err)
		}
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDemands()
		registry := prometheus.NewRegistry()
		d.register(registry)
		_, stop := d.watch(web)
		defer stop()
		if err := d.begin("one", func() {}).report(clientsOf(3, true, true)); err != nil {
			t.Fatal(err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families { // one each
			if m := f.GetMetric()[0]; m.GetGauge().GetValue()+m.GetCounter().GetValue() != 1 {
				t.Errorf("%s is %v, want 1", f.GetName(), m)
			}
		}
	})
}

// endpointSlices are in an API server. ready are the ready endpoints; nil if it is away.
type endpointSlices struct {
	v1.EndpointSliceInterface
	ready func() []string
}

func (s endpointSlices) List(context.Context, metav1.ListOptions) (*discoveryv1.EndpointSliceList, error) {
	list, unready := &discoveryv1.EndpointSliceList{}, false
	if s.ready() == nil {
		return list, errors.New("the API server is away")
	}
	for _, addr := range s.ready() {
		list.Items = append(list.Items, discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{addr}}, {Addresses: []string{"192.0.2.9"}, Conditions: discoveryv1.EndpointConditions{Ready: &unready}},
		}})
	}
	return list, nil
}

// TestDemandIsUnknownElsewhere has a program to which nodes report, until they may not. An address
// of this program is one on loopback.
func TestDemandIsUnknownElsewhere(t *testing.T) {
	const own, own6, other, other6 = "127.0.0.1", "::1", "192.0.2.1", "2001:db8::1"
	for what, test := range map[string]struct {
		later  []string
		noKeys error
		err    string
	}{
		"still here":    {[]string{own, own6}, nil, ""},
		"one family":    {[]string{own6}, nil, ""},
		"lost its node": {[]string{}, nil, "no ready endpoint"},
		"a successor":   {[]string{other6}, nil, "to another Pod, " + other6},
		"two scalers":   {[]string{own, other}, nil, "to another Pod, " + other},
		"lost the API":  {nil, nil, "is away"},
		"no keys":       {[]string{own}, errors.New("refused"), "refused"},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, began := newDemands(), time.Now()
			d.unsettle(settleTime)
			known := func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
				defer cancel()
				_, err := d.await(ctx, web, false)
				return err == nil
			}
			noKeys := error(nil)
			e := &endpoint{func(context.Context) error { return noKeys }, endpointSlices{ready: func() []string {
				switch after := time.Since(began); {
				case after < time.Minute:
					return []string{other} // its predecessor
				case after < 2*time.Minute:
					return []string{own, own6}
				}
				noKeys = test.noKeys
				return test.later
			}}, d, slog.New(slog.DiscardHandler)}
			ctx, cancel := context.WithDeadline(t.Context(), began.Add(3*time.Minute))
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- e.run(ctx) }()
			for _, at := range []struct {
				after time.Duration
				known bool
			}{
				{50 * time.Second, false},
				{time.Minute + settleTime - endpointPeriod, false},
				{time.Minute + settleTime + endpointPeriod, true},
				{2*time.Minute + endpointPeriod + 1, test.err == ""},
			} {
				<-time.After(time.Until(began.Add(at.after)))
				if got := known(); got != at.known {
					t.Errorf("%s: after %s demand is known: %t", what, at.after, got)
				}
			}
			err := <-ended
			if took := time.Since(began) - 2*time.Minute; test.err == "" && err != nil ||
				test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err) || took > settleTime+endpointPeriod) {
				t.Errorf("%s: it ends after %s: %v, want %q", what, took, err, test.err)
			}
		})
	}
}
