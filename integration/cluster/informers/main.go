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
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
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

// resync is kube-proxy's configSyncPeriod by default.
const resync = 15 * time.Minute

// watching is the running informers.
type watching struct {
	client kubernetes.Interface
	node   string // name of the own Node
	log    *slog.Logger
}

// start starts the informers and waits until their handlers have received all objects.
func (w *watching) start(ctx context.Context) error {
	slices := w.factory("!"+corev1.IsHeadlessService, "")
	services := w.factory("!service.kubernetes.io/service-proxy-name", "spec.clusterIP!="+corev1.ClusterIPNone)
	cidrs := w.factory("", "")
	node := w.factory("", fields.OneTermEqualSelector(metav1.ObjectNameField, w.node).String())
	all := []cache.SharedIndexInformer{
		services.Core().V1().Services().Informer(),
		slices.Discovery().V1().EndpointSlices().Informer(),
		cidrs.Networking().V1().ServiceCIDRs().Informer(),
		node.Core().V1().Nodes().Informer(),
	}
	synced := make([]cache.DoneChecker, len(all))
	for i, informer := range all {
		handler, err := informer.AddEventHandler(w.handler())
		if err != nil {
			return fmt.Errorf("add a handler: %w", err)
		}
		synced[i] = handler.HasSyncedChecker()
	}
	for _, f := range []informers.SharedInformerFactory{services, slices, cidrs, node} {
		f.StartWithContext(ctx)
	}
	if cache.WaitFor(ctx, "", synced...) {
		w.log.Info("synced", "services", len(all[0].GetStore().ListKeys()), "slices", len(all[1].GetStore().ListKeys()))
	}
	return nil
}

// factory makes informers of objects that the selectors let pass.
func (w *watching) factory(labels, fields string) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(w.client, resync,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = labels, fields }))
}

// handler logs each object that is added or changed after the first list.
func (w *watching) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if !isInInitialList {
				w.seen(obj)
			}
		},
		UpdateFunc: func(_, obj any) { w.seen(obj) },
	}
}

// seen logs an object and the time in nanoseconds since the Unix epoch, because the log's
// own time has milliseconds.
func (w *watching) seen(obj any) {
	now := time.Now().UnixNano()
	if o, err := meta.Accessor(obj); err == nil { // informers hold nothing else
		w.log.Info("seen", "version", o.GetResourceVersion(), "at", now)
	}
}
