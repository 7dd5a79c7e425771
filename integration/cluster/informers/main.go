// Command informers watches what a Service proxy watches, and does nothing with
// it: shared informers of client-go for Services, EndpointSlices, ServiceCIDRs and
// the own Node, with kube-proxy's selectors, over protobuf. That is the floor for
// what a proxy takes until it knows its cluster, in time and in memory; what
// kube-proxy does comes on top of exactly this.
//
//	informers --kubeconfig FILE --node NAME
//
// It tells in its log when all objects have come to its handlers (synced), and of
// each change afterwards (seen), by the object's resource version.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "`file` that says how to reach the API server")
	node := flag.String("node", "", "`name` of the own Node")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *node); err != nil {
		fmt.Fprintln(os.Stderr, "informers:", err)
		stop()
		os.Exit(1)
	}
}

// run watches until ctx ends.
func run(ctx context.Context, kubeconfig, node string) error {
	client, err := newClient(kubeconfig)
	if err != nil {
		return err
	}
	w := &watching{client: client, node: node, log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if err := w.start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// newClient makes a client as kube-proxy does.
func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return client, nil
}
