package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/cache"

	"kube-vmap/model"
)

// newKEDA starts a scaler that knows some Services, and returns a client of it. stop ends the scaler,
// as a signal does, and waits until it has ended.
func newKEDA(t *testing.T) (d *demands, keda pb.ExternalScalerClient, stop func()) {
	d = newDemands()
	results := cache.NewLRUExpireCache(10)
	results.Add(web, nil, time.Hour)
	results.Add(model.ServiceName{Namespace: "shop", Name: "awake"}, fmt.Errorf("no annotation"), time.Hour)
	s := &scaler{demands: d, services: &services{results: results}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.serve(ctx, l) }()
	connection, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return d, pb.NewExternalScalerClient(connection), func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// watches returns how many Services are watched.
func (d *demands) watches() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.watchers)
}

func object(service, threshold string) *pb.ScaledObjectRef {
	metadata := map[string]string{"scalerAddress": "kube-vmap-scaler.kube-system:9090", "service": service, "threshold": threshold}
	return &pb.ScaledObjectRef{Name: "web", Namespace: "shop", ScalerMetadata: metadata}
}

func TestKEDAReceivesSignals(t *testing.T) {
	d, keda, stop := newKEDA(t)
	d.settled = time.Now()
	stream, err := keda.StreamIsActive(t.Context(), object("web", ""))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(clients int) {
		t.Helper()
		if is, err := stream.Recv(); err != nil || is.GetResult() != (clients > 0) {
			t.Errorf("stream: %v, %v", is, err)
		}
		if is, err := keda.IsActive(t.Context(), object("web", "")); err != nil || is.GetResult() != (clients > 0) {
			t.Errorf("is active: %v, %v", is, err)
		}
		got, err := keda.GetMetrics(t.Context(), &pb.GetMetricsRequest{ScaledObjectRef: object("web", ""), MetricName: metricName})
		if err != nil || got.GetMetricValues()[0].GetMetricValueFloat() != float64(clients) {
			t.Errorf("metric: %v, %v", got, err)
		}
	}
	expect(0)
	r := d.begin("one", func() {})
	for _, n := range []int{3, 7, 0, 1} {
		if err := r.report(clientsOf(n, n > 0, true)); err != nil {
			t.Fatal(err)
		}
		expect(n)
	}
	d.unsettle(time.Hour) // another stream cannot begin yet
	waits, err := keda.StreamIsActive(t.Context(), object("unknown", ""))
	if err != nil {
		t.Fatal(err)
	}
	for d.watches() < 2 { // until it waits
		runtime.Gosched()
	}
	stop()
	for _, s := range []pb.ExternalScaler_StreamIsActiveClient{stream, waits} {
		if is, err := s.Recv(); !errors.Is(err, io.EOF) { // KEDA reconnects sooner than after an error
			t.Errorf("after the end: %v, %v", is, err)
		}
	}
}

func TestTriggers(t *testing.T) {
	d, keda, stop := newKEDA(t)
	defer stop()
	d.settled = time.Now()
	for _, test := range []struct {
		ref    *pb.ScaledObjectRef
		metric string
		target float64 // zero: the trigger is invalid
		code   codes.Code
		err    string
	}{
		{object("web", ""), metricName, 100, codes.OK, ""},
		{object("web", "2.5"), metricName, 2.5, codes.OK, ""},
		{object("awake", ""), metricName, 100, codes.FailedPrecondition, "no annotation"},
		{object("web", ""), "other", 100, codes.InvalidArgument, `metric "other" does not exist`},
		{object("", ""), metricName, 0, codes.InvalidArgument, "no service"},
		{object("web", "0"), metricName, 0, codes.InvalidArgument, `threshold: "0" is not a number`},
		{object("web", "NaN"), metricName, 0, codes.InvalidArgument, `"NaN" is not`},
		{object("web", "Inf"), metricName, 0, codes.InvalidArgument, `"Inf" is not`},
		{object("web", "1e-9"), metricName, 0, codes.InvalidArgument, `"1e-9" is not`},
		{object("web", "many"), metricName, 0, codes.InvalidArgument, `"many" is not`},
		{nil, metricName, 0, codes.InvalidArgument, "no service"},
	} {
		spec, err := keda.GetMetricSpec(t.Context(), test.ref)
		if (err == nil) != (test.target > 0) || err == nil && spec.GetMetricSpecs()[0].GetTargetSizeFloat() != test.target {
			t.Errorf("%v: %v, %v", test.ref, spec, err)
		}
		_, err = keda.GetMetrics(t.Context(), &pb.GetMetricsRequest{ScaledObjectRef: test.ref, MetricName: test.metric})
		if status.Code(err) != test.code || !strings.Contains(fmt.Sprint(err), test.err) {
			t.Errorf("%v: %v, want %s %s", test.ref, err, test.code, test.err)
		}
	}
}

// TestUnknownDemandIsNotZero has a program that no node can reach yet.
func TestUnknownDemandIsNotZero(t *testing.T) {
	_, keda, stop := newKEDA(t)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if is, err := keda.IsActive(ctx, object("web", "")); err == nil {
		t.Errorf("is active: %v", is)
	}
	synctest.Test(t, func(t *testing.T) { // KEDA has no timeout
		results := cache.NewLRUExpireCache(10)
		results.Add(web, nil, time.Hour)
		s := &scaler{demands: newDemands(), services: &services{results: results}}
		began := time.Now()
		n, err := s.IsActive(t.Context(), object("web", ""))
		if status.Code(err) != codes.Unavailable || time.Since(began) > 2*settleTime {
			t.Errorf("is active: %v, %v after %s", n, err, time.Since(began))
		}
	})
}

// TestMetricOfAllNodes has two nodes that report again after a restart.
func TestMetricOfAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, results := newDemands(), cache.NewLRUExpireCache(10)
		results.Add(web, nil, time.Hour)
		s := &scaler{demands: d, services: &services{results: results}}
		metric := func() (float64, error) {
			got, err := s.GetMetrics(t.Context(), &pb.GetMetricsRequest{ScaledObjectRef: object("web", ""), MetricName: metricName})
			if err != nil {
				return 0, err
			}
			return got.GetMetricValues()[0].GetMetricValueFloat(), nil
		}
		report := func(node string, n int) {
			if err := d.begin(node, func() {}).report(clientsOf(n, false, true)); err != nil {
				t.Error(err)
			}
		}
		d.unsettle(mountTime)
		report("one", 1)
		if n, err := metric(); status.Code(err) != codes.Unavailable {
			t.Errorf("of one node: %g, %v", n, err)
		}
		began := time.Now()
		if is, err := s.IsActive(t.Context(), object("web", "")); err != nil || !is.GetResult() || time.Since(began) > 0 {
			t.Errorf("is active: %v, %v after %s", is, err, time.Since(began))
		}
		<-time.After(mountTime - settleTime - settleTime/2)
		time.AfterFunc(settleTime/4, func() { report("two", 200) })
		if n, err := metric(); n != 201 || err != nil {
			t.Errorf("of both nodes: %g, %v", n, err)
		}
	})
}
