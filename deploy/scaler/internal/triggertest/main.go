// Command triggertest sends KEDA's requests to an external scaler, for tests: it prints what the trigger
// of a ScaledObject would receive, as
//
//	triggertest watch ADDRESS NAMESPACE SERVICE   true or false, whenever the scaler sends it
//	triggertest get ADDRESS NAMESPACE SERVICE     "true 3": is there demand, and the metric; or an error
package main

import (
	"context"
	"fmt"
	"os"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("usage: triggertest watch|get ADDRESS NAMESPACE SERVICE")
	}
	connection, err := grpc.NewClient(args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	keda, ctx := pb.NewExternalScalerClient(connection), context.Background()
	ref := &pb.ScaledObjectRef{
		Name: args[3], Namespace: args[2], ScalerMetadata: map[string]string{"scalerAddress": args[1], "service": args[3]},
	}
	if args[0] == "get" {
		return get(ctx, keda, ref)
	}
	stream, err := keda.StreamIsActive(ctx, ref, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	for {
		is, err := stream.Recv()
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(os.Stdout, is.GetResult())
	}
}

func get(ctx context.Context, keda pb.ExternalScalerClient, ref *pb.ScaledObjectRef) error {
	is, err := keda.IsActive(ctx, ref)
	if err != nil {
		return err
	}
	spec, err := keda.GetMetricSpec(ctx, ref)
	if err != nil {
		return err
	}
	metrics, err := keda.GetMetrics(ctx, &pb.GetMetricsRequest{
		ScaledObjectRef: ref, MetricName: spec.GetMetricSpecs()[0].GetMetricName(),
	})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(os.Stdout, is.GetResult(), metrics.GetMetricValues()[0].GetMetricValueFloat())
	return nil
}
