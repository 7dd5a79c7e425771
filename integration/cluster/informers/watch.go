package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

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
