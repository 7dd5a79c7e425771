package cluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ClientConfig says how to reach the API, as kube-proxy's clientConnection and
// its flags do.
type ClientConfig struct {
	// Kubeconfig is the path of a kubeconfig file, and Master the address of the
	// API server, which overrides the file's. Without either, the process is
	// taken to run in a Pod.
	Kubeconfig, Master string
	// QPS and Burst limit requests other than watches; zero is client-go's default
	// of 5 and 10, and a negative QPS is no limit.
	QPS   float32
	Burst int
	// ContentType is how objects are written, protobuf if it is empty, and
	// AcceptContentTypes how they are read; empty is ContentType and then any.
	ContentType, AcceptContentTypes string
	// UserAgent is what the server's logs know the process by; empty is client-go's
	// default, made of the program's name.
	UserAgent string
}

// NewClient makes a client. The server is not asked for anything yet.
func NewClient(c ClientConfig) (kubernetes.Interface, error) {
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = c.QPS, c.Burst
	config.ContentType, config.AcceptContentTypes = c.ContentType, c.AcceptContentTypes
	if config.ContentType == "" {
		config.ContentType = runtime.ContentTypeProtobuf
	}
	config.UserAgent = c.UserAgent
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", c.origin(), err)
	}
	return client, nil
}

// restConfig is where the server is and who asks.
func (c ClientConfig) restConfig() (*rest.Config, error) {
	var config *rest.Config
	var err error
	if c.Kubeconfig == "" && c.Master == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.Kubeconfig},
			&clientcmd.ConfigOverrides{ClusterInfo: clientcmdapi.Cluster{Server: c.Master}},
		).ClientConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.origin(), err)
	}
	return config, nil
}

// origin says where the configuration is from.
func (c ClientConfig) origin() string {
	switch {
	case c.Kubeconfig == "" && c.Master == "":
		return "the configuration of a Pod, because neither a kubeconfig file nor a master is given"
	case c.Kubeconfig == "":
		return "the configuration for master " + c.Master
	case c.Master == "":
		return "kubeconfig " + c.Kubeconfig
	}
	return "kubeconfig " + c.Kubeconfig + " with master " + c.Master
}
