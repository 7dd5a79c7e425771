// Command kube-vmap-scaler is the external push scaler by which KEDA starts what clients of a Service
// wait for, and stops it when it is idle (https://keda.sh/docs/latest/concepts/external-scalers).
//
//	nodes (package demand) --TLS--> reports.go --> demand.go --> keda.go --gRPC--> KEDA
//
//	reports.go      receives what nodes report, checks who sends it, and that nodes report here
//	demand.go       adds up the demand of all nodes
//	keda.go         responds to KEDA, signals that clients wait, and checks that the Service of a
//	                trigger scales to zero
//	certificate.go  publishes the certificate that nodes expect
//
// It keeps nothing but the certificate. While nodes may not have reported, as after a restart, with a new
// certificate or a successor, KEDA's requests for the metric fail, and whether a Service is active if no node
// has reported demand.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1 "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// version is set by the linker.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if newCommand().ExecuteContext(ctx) != nil {
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	reports, keda, metrics string // addresses to listen on
	namespace, reporter    string
	kubeconfig, logFormat  string
	verbose                bool
}

func newCommand() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "kube-vmap-scaler",
		Short: "Signal to KEDA that clients of a Service wait for an endpoint",
		Long: `Signal to KEDA that clients of a Service wait for an endpoint.

Nodes with kube-vmap report the demand for Services with the annotation
kube-vmap.io/scale-to-zero. KEDA receives it from this external push scaler.`,
		Args: cobra.NoArgs, Version: version, SilenceUsage: true,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	f := c.Flags()
	f.StringVar(&o.reports, "listen-reports", ":8443", "where nodes report demand, over TLS")
	f.StringVar(&o.keda, "listen-keda", ":9090", "where KEDA sends requests, by gRPC without TLS")
	f.StringVar(&o.metrics, "listen-metrics", ":8080", "where /livez, /readyz and /metrics are")
	f.StringVar(&o.namespace, "namespace", "kube-system",
		"namespace of the Service, the Secret and the ConfigMap kube-vmap-scaler")
	f.StringVar(&o.reporter, "reporter", "system:serviceaccount:kube-system:kube-vmap", "user that may report demand")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "outside of a Pod, how to connect to the API server")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log each change of demand")
	return c
}

func (o *options) logger() (*slog.Logger, error) {
	handling := &slog.HandlerOptions{}
	if o.verbose {
		handling.Level = slog.LevelDebug
	}
	switch o.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(os.Stderr, handling)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, handling)), nil
	}
	return nil, fmt.Errorf("--log-format=%s: must be text or json", o.logFormat)
}

// Requests to the API server, a second and in a burst: checks of Services are the most frequent.
const apiQPS, apiBurst = 50, 100

// run serves until ctx ends, which is not an error.
func (o *options) run(ctx context.Context) error {
	log, err := o.logger()
	if err != nil {
		return err
	}
	klog.SetSlogLogger(log)
	config, err := rest.InClusterConfig()
	if o.kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	}
	if err != nil {
		return fmt.Errorf("--kubeconfig=%s: %w", o.kubeconfig, err)
	}
	config.QPS, config.Burst, config.UserAgent = apiQPS, apiBurst, "kube-vmap-scaler/"+version
	core, err := corev1.NewForConfig(config)
	if err != nil {
		return err
	}
	discovery, err := discoveryv1.NewForConfig(config)
	if err != nil {
		return err
	}
	var listeners [3]net.Listener
	for i, addr := range [...]string{o.reports, o.keda, o.metrics} {
		if listeners[i], err = (&net.ListenConfig{}).Listen(ctx, "tcp", addr); err != nil {
			return err
		}
		defer func() { _ = listeners[i].Close() }() // again, or after an error
	}
	log.Info("starting", "version", version)
	d := newDemands()
	reports := newReports(d, o.reporter, log)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	d.register(registry)
	registry.MustRegister(reports.refused)
	ready := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveHTTP(ctx, listeners[2], instruments(registry, ready)) })
	group.Go(func() error {
		pair, err := (&publisher{core, o.namespace, d, log}).publish(ctx)
		if err != nil {
			return nil //nolint:nilerr // ctx has ended
		}
		close(ready)
		// Not by core, whose limit of requests many triggers may use up.
		readKeys := func(ctx context.Context) error { return reports.readKeys(ctx, discovery.RESTClient()) }
		e := endpoint{readKeys, discovery.EndpointSlices(o.namespace), d, log}
		group.Go(func() error { return e.run(ctx) })
		return reports.serve(ctx, listeners[0], pair)
	})
	group.Go(func() error {
		return (&scaler{demands: d, services: newServices(core, log)}).serve(ctx, listeners[1])
	})
	return group.Wait()
}

// instruments serves health and metrics. It is ready when nodes can report.
func instruments(registry *prometheus.Registry, ready <-chan struct{}) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-ready:
			_, _ = fmt.Fprintln(w, "ok")
		default:
			http.Error(w, "no certificate yet", http.StatusServiceUnavailable)
		}
	})
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return &http.Server{Handler: mux, ReadTimeout: readTimeout, WriteTimeout: 2 * readTimeout, MaxHeaderBytes: maxHeader}
}

const (
	readTimeout = 5 * time.Second
	maxHeader   = 16 << 10
	stopTimeout = 5 * time.Second
)

// serveHTTP serves until ctx ends, and requests have.
func serveHTTP(ctx context.Context, l net.Listener, s *http.Server) error {
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	_ = s.Shutdown(end)
	return nil
}
