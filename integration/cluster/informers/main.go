// Command informers watches the objects of a Service proxy without processing them: shared
// informers of client-go for Services, EndpointSlices, ServiceCIDRs and the own Node, with
// kube-proxy's selectors, over protobuf. This is the floor for the time and memory that a
// proxy needs until it has all objects; kube-proxy does exactly this, too.
//
//	informers --kubeconfig FILE --node NAME
//
// It logs when its handlers have received all objects (synced), and each change afterwards
// (seen), with the object's resource version.
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
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig `file` for the API server")
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
