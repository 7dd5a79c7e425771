package config

// StatusSocket is where a process answers questions about its state if nothing else
// is said: a name that is looked for in the network namespace, so that whoever asks
// there finds the proxy whose rules hold there.
const StatusSocket = "@kube-vmap"

// StatusSocket is the Unix socket on which questions are answered, by the names of
// package net; empty if none is.
func (c *Config) StatusSocket() string { return c.flags.statusSocket }

// StatusPage tells whether a page about the state is served with the metrics.
func (c *Config) StatusPage() bool { return c.flags.statusPage }

// CountConnections tells whether connections are counted.
func (c *Config) CountConnections() bool { return c.flags.countConnections }

// EndpointMetrics tells whether there is a metric for each endpoint.
func (c *Config) EndpointMetrics() bool { return c.flags.endpointMetrics }
