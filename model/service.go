package model

import (
	"cmp"
	"net/netip"
	"strings"
	"time"
)

// ServiceName names a Service in the cluster.
type ServiceName struct {
	Namespace, Name string
}

// String is "namespace/name".
func (n ServiceName) String() string { return n.Namespace + "/" + n.Name }

// Compare orders names by namespace, then name.
func (n ServiceName) Compare(o ServiceName) int {
	if c := strings.Compare(n.Namespace, o.Namespace); c != 0 {
		return c
	}
	return strings.Compare(n.Name, o.Name)
}

// ServicePortName names one port of a Service: the unit for which endpoints are
// selected and everything is programmed. The protocol belongs to the name,
// since an EndpointSlice port serves a Service port of the same name and the
// same protocol only.
type ServicePortName struct {
	ServiceName
	Port     string // the port's name; empty for the only, unnamed port
	Protocol Protocol
}

// String is "namespace/name", followed by ":port" for a named port.
func (n ServicePortName) String() string {
	if n.Port == "" {
		return n.ServiceName.String()
	}
	return n.ServiceName.String() + ":" + n.Port
}

// TrafficPolicy says which endpoints may serve a kind of traffic.
type TrafficPolicy uint8

const (
	// PolicyCluster lets every endpoint of the cluster serve.
	PolicyCluster TrafficPolicy = iota
	// PolicyLocal lets only endpoints of this node serve.
	PolicyLocal
)

// Service is what the proxy reads of a Service. Addresses are of both
// families; each is programmed in its own.
type Service struct {
	Name ServiceName
	// UID tells the Service from an earlier one of its name; empty if not known.
	UID string
	// Created orders Services that claim the same address and port, in
	// nanoseconds since the Unix epoch; the older one wins.
	Created int64

	ClusterIPs      []netip.Addr
	ExternalIPs     []netip.Addr
	LoadBalancerIPs []netip.Addr
	Ports           []ServicePort

	InternalPolicy TrafficPolicy
	ExternalPolicy TrafficPolicy
	// SourceRanges limit who may use the LoadBalancerIPs; empty means anyone.
	SourceRanges []netip.Prefix
	// Affinity is how long a client keeps its endpoint after its last new
	// connection; zero means no affinity.
	Affinity time.Duration
	// Scheduler chooses among the endpoints.
	Scheduler Scheduler
	// HealthCheckNodePort is the port that tells load balancers whether this
	// node has local endpoints; zero means none.
	HealthCheckNodePort uint16
}

// ServicePort is one port of a Service. NodePort is zero where there is none.
type ServicePort struct {
	Name     string
	Protocol Protocol
	Port     uint16
	NodePort uint16
}

// portName is the full name of the Service's port p.
func (s *Service) portName(p ServicePort) ServicePortName {
	return ServicePortName{ServiceName: s.Name, Port: p.Name, Protocol: p.Protocol}
}

// compareAge orders Services: the older one first. The API server's creation times
// are in seconds; of one second, the UID decides, which no author can choose, and
// where there is none, the name. So any two Services have one order on every node
// and at any time.
func (s *Service) compareAge(o *Service) int {
	return cmp.Or(cmp.Compare(s.Created, o.Created), strings.Compare(s.UID, o.UID), s.Name.Compare(o.Name))
}
