package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/features"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	configv1alpha1 "k8s.io/component-base/config/v1alpha1"
	"k8s.io/klog/v2"

	"kube-vmap/sync/source/convert"
)

// ClientConfig configures a client of the API server. Without a kubeconfig file and a master, the
// in-cluster configuration of a Pod is used. Without a content type, requests are encoded in
// protobuf.
type ClientConfig struct {
	configv1alpha1.ClientConnectionConfiguration
	// Master is the API server's address and overrides the file's.
	Master string
	// UserAgent identifies the process in the server's logs; empty means client-go's
	// default, which has the program's name.
	UserAgent string
}

// A Client is a client of the API server.
type Client struct {
	config *rest.Config
	http   *http.Client
	events rest.Interface
}

// dropManagedFields is a parameter of accepted types. API servers of Kubernetes 1.38 with the feature gate
// ManagedFieldsOptOut send objects without managedFields, which nothing here reads; all others ignore it.
// https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5958-client-opt-out-managedfields
const dropManagedFields = ";drop=metadata.managedFields"

// NewClient returns a client. It does not connect yet.
func NewClient(c ClientConfig) (*Client, error) {
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = c.QPS, int(c.Burst)
	config.ContentType = cmp.Or(c.ContentType, runtime.ContentTypeProtobuf)
	accept := cmp.Or(c.AcceptContentTypes, config.ContentType+",*/*")
	config.AcceptContentTypes = strings.ReplaceAll(accept, ",", dropManagedFields+",") + dropManagedFields
	config.UserAgent = c.UserAgent
	client, err := ClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("create a client from %s: %w", c.origin(), err)
	}
	return client, nil
}

// ClientFor returns a client with this configuration.
func ClientFor(config *rest.Config) (*Client, error) {
	c := &Client{config: rest.CopyConfig(config)}
	c.config.UserAgent = cmp.Or(c.config.UserAgent, rest.DefaultKubernetesUserAgent())
	c.config.Wrap(func(t http.RoundTripper) http.RoundTripper { return failureKeeper{t} })
	var err error
	if c.http, err = rest.HTTPClientFor(c.config); err != nil {
		return nil, err
	}
	c.events, err = c.resource(eventsv1.SchemeGroupVersion, scheme.Codecs.WithoutConversion())
	return c, err
}

// resource returns a client of the resources of a group, whose objects the codec decodes.
func (c *Client) resource(version schema.GroupVersion, codec runtime.NegotiatedSerializer) (rest.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.GroupVersion, config.NegotiatedSerializer, config.APIPath = &version, codec, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	return rest.RESTClientForConfigAndClient(config, c.http)
}

func (c ClientConfig) restConfig() (*rest.Config, error) {
	var config *rest.Config
	var err error
	if c.Kubeconfig == "" && c.Master == "" {
		config, err = rest.InClusterConfig() // BuildConfigFromFlags would log, and hide the error
	} else {
		config, err = clientcmd.BuildConfigFromFlags(c.Master, c.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.origin(), err)
	}
	return config, nil
}

func (c ClientConfig) origin() string {
	switch {
	case c.Kubeconfig == "" && c.Master == "":
		return "the in-cluster configuration (no kubeconfig file and no master given)"
	case c.Kubeconfig == "":
		return "the configuration for master " + c.Master
	case c.Master == "":
		return "kubeconfig " + c.Kubeconfig
	}
	return "kubeconfig " + c.Kubeconfig + " with master " + c.Master
}

// Server returns the addresses of the API server, with its port. It looks up a name.
func (c *Client) Server(ctx context.Context) (at []netip.AddrPort, err error) {
	u := c.events.Get().URL()
	port, err := strconv.ParseUint(cmp.Or(u.Port(), map[string]string{"http": "80"}[u.Scheme], "443"), 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port of the API server %s: %w", u.Host, err)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	for _, a := range addrs {
		at = append(at, netip.AddrPortFrom(a.Unmap(), uint16(port)))
	}
	return at, err
}

// IsOwnService reports whether an address of the API server is its own Service's, as far as the
// environment of a pod says.
func IsOwnService(at netip.AddrPort) bool {
	service, err := netip.ParseAddr(os.Getenv("KUBERNETES_PORT_443_TCP_ADDR"))
	return err == nil && at.Addr() == service
}

// ServiceCIDRs returns the ranges of ClusterIPs. An API server that is too old has none.
func (c *Client) ServiceCIDRs(ctx context.Context) (out []netip.Prefix, err error) {
	client, err := c.resource(networkingv1.SchemeGroupVersion, scheme.Codecs.WithoutConversion())
	if err != nil {
		return nil, err
	}
	var list networkingv1.ServiceCIDRList
	if err := client.Get().Resource("servicecidrs").Do(ctx).Into(&list); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list ServiceCIDRs: %w", err)
	}
	for i := range list.Items {
		cidrs, _ := convert.ServiceCIDR(&list.Items[i])
		out = append(out, cidrs...)
	}
	return out, nil
}

// ForRequests returns a client of a kubeconfig file for single requests.
func ForRequests(kubeconfig string) (*Client, error) {
	var c ClientConfig
	c.Kubeconfig, c.ContentType = kubeconfig, runtime.ContentTypeJSON
	return NewClient(c)
}

// Version returns the version of the API server, such as v1.36.0. It proves that the server is
// reachable, and needs no permission.
func (c *Client) Version(ctx context.Context) (string, error) {
	text, err := c.events.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("get the version of the API server: %w", err)
	}
	var info version.Info
	if err := json.Unmarshal(text, &info); err != nil {
		return "", fmt.Errorf("decode the version of the API server: %w", err)
	}
	return info.GitVersion, nil
}

// RouteKlog sends client-go's log lines to log, for the whole process. Lines of klog's
// verbosity n have the level -n: a handler that shows levels from -verbosity on shows as
// much as klog did. It must be called once, before anything else of client-go: klog does
// not guard its logger. [SetKlogVerbosity] changes the verbosity later.
func RouteKlog(log *slog.Logger, verbosity int) {
	klog.SetLoggerWithOptions(logr.FromSlogHandler(log.Handler()).V(featureGatesVerbosity-1), klog.ContextualLogger(true))
	features.FeatureGates().Enabled(features.WatchListClient) // any gate: the first use logs all
	klog.SetSlogLogger(log)
	SetKlogVerbosity(verbosity)
}

// featureGatesVerbosity is the minimum verbosity for client-go's list of feature gates: a
// line for each, by default at V(1), when a process first uses one.
const featureGatesVerbosity = 5

// SetKlogVerbosity makes client-go log lines of verbosities up to v, for the whole
// process. It may be called at any time.
func SetKlogVerbosity(v int) {
	var level klog.Level
	// Set, meant for flags, is the only way to change it. It accepts every number.
	_ = level.Set(strconv.Itoa(v))
}

// withDebugLog returns a context that makes client-go log to log, at most at the debug
// level: [outageLog] logs what matters to users. The levels of logr do not do this,
// because they do not apply to errors.
func withDebugLog(ctx context.Context, log *slog.Logger) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(debugHandler{log.Handler()}))
}

type debugHandler struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (l debugHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return l.Handler.Enabled(ctx, min(level, slog.LevelDebug))
}

// Handle implements [slog.Handler]. It checks the level again, because klog does not
// call Enabled for errors.
func (l debugHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = min(r.Level, slog.LevelDebug)
	if !l.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (l debugHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugHandler{l.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (l debugHandler) WithGroup(name string) slog.Handler {
	return debugHandler{l.Handler.WithGroup(name)}
}
