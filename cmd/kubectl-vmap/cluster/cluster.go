package cluster

import (
	"fmt"
	"time"

	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// DefaultNamespace is the usual namespace of kube-vmap's pods.
const DefaultNamespace = "kube-system"

// Config is where a cluster is, and how it is asked.
type Config struct {
	REST *rest.Config
	// Namespace is the namespace of kube-vmap's pods.
	Namespace string
	// Timeout is how long a node may be silent, before its answer and within it.
	Timeout time.Duration
	// Concurrency is how many nodes are asked at a time.
	Concurrency int
}

// Cluster asks the nodes of a cluster.
type Cluster struct {
	config   Config
	core     core.CoreV1Interface
	metadata metadata.Interface
	slots    chan struct{} // has an item for each command that runs
}

// New returns the cluster of a configuration. It sends nothing.
func New(c Config) (*Cluster, error) {
	switch {
	case c.Timeout <= 0:
		return nil, fmt.Errorf("--node-timeout: %s is not more than 0", c.Timeout)
	case c.Concurrency <= 0:
		return nil, fmt.Errorf("--node-concurrency: %d is not more than 0", c.Concurrency)
	}
	c.REST = rest.CopyConfig(c.REST)
	c.REST.QPS = -1 // there are few requests, and the API server limits them
	pods, err := core.NewForConfig(c.REST)
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	objects, err := metadata.NewForConfig(c.REST)
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	return &Cluster{c, pods, objects, make(chan struct{}, c.Concurrency)}, nil
}

// REST returns the configuration of clients for the API server.
func (c *Cluster) REST() *rest.Config { return rest.CopyConfig(c.config.REST) }

// maxPatience is how long a node may work in silence: it observes for ten seconds at most.
const maxPatience = time.Minute

// Patient returns the same cluster whose nodes may be silent for longer.
func (c *Cluster) Patient(longer time.Duration) *Cluster {
	out := *c
	out.config.Timeout += min(longer, maxPatience)
	return &out
}
