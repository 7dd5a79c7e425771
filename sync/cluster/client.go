package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	configv1alpha1 "k8s.io/component-base/config/v1alpha1"
)

// ClientConfig configures a client of the API server. Without a kubeconfig file and a master, the
// in-cluster configuration of a Pod is used. Requests are encoded in protobuf if there is no content
// type.
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

// NewClient returns a client. It does not connect yet.
func NewClient(c ClientConfig) (*Client, error) {
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = c.QPS, int(c.Burst)
	config.ContentType, config.AcceptContentTypes = c.ContentType, c.AcceptContentTypes
	if config.ContentType == "" {
		config.ContentType = runtime.ContentTypeProtobuf
	}
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
	if c.config.UserAgent == "" {
		c.config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
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

// restConfig returns the server's address and the credentials.
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

// ServerVersion returns the version of the API server of a kubeconfig file, such as v1.36.0. It
// proves that the server is reachable, and needs no permission.
func ServerVersion(ctx context.Context, kubeconfig string) (string, error) {
	var c ClientConfig
	c.Kubeconfig, c.ContentType = kubeconfig, runtime.ContentTypeJSON
	client, err := NewClient(c)
	if err != nil {
		return "", err
	}
	text, err := client.events.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", fmt.Errorf("get the version of the API server: %w", err)
	}
	var info version.Info
	if err := json.Unmarshal(text, &info); err != nil {
		return "", fmt.Errorf("decode the version of the API server: %w", err)
	}
	return info.GitVersion, nil
}

// kubeletPort is where kubelets listen that name no other port.
const kubeletPort = 10250

// Kubelet returns where the kubelet of a node listens: its port at all internal addresses of the
// Node object. Only this asks about other nodes than the proxy's own.
func (c *Client) Kubelet(ctx context.Context, node string) (at []netip.AddrPort, err error) {
	client, err := c.resource(corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion())
	if err != nil {
		return nil, err
	}
	var n corev1.Node
	if err := client.Get().MaxRetries(0).Resource("nodes").Name(node).Do(ctx).Into(&n); err != nil {
		return nil, fmt.Errorf("get Node %s: %w", node, err)
	}
	port := uint16(cmp.Or(n.Status.DaemonEndpoints.KubeletEndpoint.Port, kubeletPort))
	for _, a := range n.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			at = append(at, netip.AddrPortFrom(addr, port))
		}
	}
	return at, nil
}
