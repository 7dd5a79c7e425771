package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"kube-vmap/model"
	"kube-vmap/sync/source/convert"
)

// The metadata of a trigger.
const (
	keyService   = "service"   // in the namespace of the ScaledObject
	keyThreshold = "threshold" // clients for each replica
)

const (
	defaultThreshold = 100
	minThreshold     = 0.001 // a metric's target is in thousandths
	metricName       = "demand"
	// maxMessage limits a request of KEDA in bytes.
	maxMessage = 64 << 10
	// keepAlive is the time between probes of a connection of KEDA, which ends after maxIdle without requests.
	keepAlive, maxIdle = 30 * time.Second, 5 * time.Minute
)

// scaler is the external push scaler. An error means that the demand is not known: KEDA leaves the
// number of replicas as it is then.
type scaler struct {
	pb.UnimplementedExternalScalerServer
	demands  *demands
	services *services
	program  context.Context //nolint:containedctx // ends with this program
}

// serve serves KEDA until ctx ends.
func (s *scaler) serve(ctx context.Context, l net.Listener) error {
	s.program = ctx
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.ConnectionTimeout(readTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepAlive, MaxConnectionIdle: maxIdle}))
	pb.RegisterExternalScalerServer(server, s)
	go func() {
		<-ctx.Done()
		defer time.AfterFunc(stopTimeout, server.Stop).Stop()
		server.GracefulStop()
	}()
	return server.Serve(l)
}

// trigger returns what the trigger of a ScaledObject says.
func trigger(ref *pb.ScaledObjectRef) (s model.ServiceName, threshold float64, err error) {
	name, text := ref.GetScalerMetadata()[keyService], ref.GetScalerMetadata()[keyThreshold]
	if name == "" {
		return s, 0, status.Errorf(codes.InvalidArgument, "metadata of the trigger: no %s", keyService)
	}
	threshold = defaultThreshold
	if text != "" {
		threshold, err = strconv.ParseFloat(text, 64)
		if err != nil || !(threshold >= minThreshold && threshold <= maxClients) {
			return s, 0, status.Errorf(codes.InvalidArgument, "metadata of the trigger: %s: %q is not a number from %g to %d",
				keyThreshold, text, minThreshold, maxClients)
		}
	}
	return model.ServiceName{Namespace: ref.GetNamespace(), Name: name}, threshold, nil
}

// clients returns how many clients the Service of a trigger has, of all nodes or at least some.
func (s *scaler) clients(ctx context.Context, ref *pb.ScaledObjectRef, all bool) (int, error) {
	name, _, err := trigger(ref)
	if err != nil {
		return 0, err
	}
	if err := s.services.check(ctx, name); err != nil {
		return 0, status.Error(codes.FailedPrecondition, err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	n, err := s.demands.await(ctx, name, all)
	if err != nil {
		return 0, status.Errorf(codes.Unavailable, "demand for Service %s: nodes cannot report, or have not yet "+
			"(see the log of kube-vmap-scaler)", name)
	}
	return n, nil
}

// IsActive reports whether there is demand.
func (s *scaler) IsActive(ctx context.Context, ref *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	n, err := s.clients(ctx, ref, false)
	if err != nil {
		return nil, err
	}
	return &pb.IsActiveResponse{Result: n > 0}, nil
}

// StreamIsActive sends whether there is demand now, and whenever clients begin to wait, or demand
// begins or ends. It ends without error if this program does: KEDA reconnects sooner then.
func (s *scaler) StreamIsActive(ref *pb.ScaledObjectRef, stream pb.ExternalScaler_StreamIsActiveServer) error {
	name, _, err := trigger(ref)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.program, cancel)()
	signals, stop := s.demands.watch(name)
	defer stop()
	for err == nil {
		var n int
		if n, err = s.demands.await(ctx, name, false); err == nil {
			err = stream.Send(&pb.IsActiveResponse{Result: n > 0})
		}
		select {
		case <-signals:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if s.program.Err() != nil {
		return nil
	}
	return status.FromContextError(err).Err()
}

// GetMetricSpec returns the metric, with the threshold as its target.
func (s *scaler) GetMetricSpec(_ context.Context, ref *pb.ScaledObjectRef) (*pb.GetMetricSpecResponse, error) {
	_, threshold, err := trigger(ref)
	if err != nil {
		return nil, err
	}
	spec := &pb.MetricSpec{MetricName: metricName, TargetSizeFloat: threshold}
	return &pb.GetMetricSpecResponse{MetricSpecs: []*pb.MetricSpec{spec}}, nil
}

// GetMetrics returns how many clients there are.
func (s *scaler) GetMetrics(ctx context.Context, req *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	if name := req.GetMetricName(); name != metricName {
		return nil, status.Errorf(codes.InvalidArgument, "metric %q does not exist", name)
	}
	n, err := s.clients(ctx, req.GetScaledObjectRef(), true)
	if err != nil {
		return nil, err
	}
	value := &pb.MetricValue{MetricName: metricName, MetricValueFloat: float64(n)}
	return &pb.GetMetricsResponse{MetricValues: []*pb.MetricValue{value}}, nil
}

const (
	// checkPeriod is how long the result of a check is kept, at most maxChecks of them.
	checkPeriod = 30 * time.Second
	maxChecks   = 10_000
	// unknownPeriod is the same if the API server has not responded.
	unknownPeriod = 5 * time.Second
	// checkTimeout limits a check.
	checkTimeout = 2 * time.Second
)

// services checks Services of triggers. One without the annotation never has demand.
type services struct {
	api     corev1.ServicesGetter
	log     *slog.Logger
	results *cache.LRUExpireCache // error by model.ServiceName
}

func newServices(api corev1.ServicesGetter, log *slog.Logger) *services {
	return &services{api: api, log: log, results: cache.NewLRUExpireCache(maxChecks)}
}

// check returns why a Service has no demand; nil also if it is not known.
func (s *services) check(ctx context.Context, name model.ServiceName) error {
	if result, known := s.results.Get(name); known {
		err, _ := result.(error)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	service, err := s.api.Services(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	period := checkPeriod
	switch {
	case apierrors.IsNotFound(err):
		err = fmt.Errorf("no Service %s", name)
	case err != nil:
		s.log.Warn("Service not readable", "service", name.String(), "err", err)
		err, period = nil, unknownPeriod
	case !model.Serves(service.Labels):
		err = fmt.Errorf("another proxy serves Service %s, and reports no demand", name)
	case !convert.ScalesToZero(service.Annotations):
		err = fmt.Errorf("no annotation %[2]s of Service %[1]s", name, convert.AnnotationScaleToZero)
	}
	s.results.Add(name, err, period)
	return err
}
