package model

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// ServiceName names a Service in the cluster.
type ServiceName struct {
	Namespace, Name string
}

// String returns "namespace/name".
func (n ServiceName) String() string { return n.Namespace + "/" + n.Name }

// Compare orders names by namespace, then name.
func (n ServiceName) Compare(o ServiceName) int {
	return cmp.Or(strings.Compare(n.Namespace, o.Namespace), strings.Compare(n.Name, o.Name))
}

// ServicePortName names one port of a Service, the unit of endpoint selection and
// programming. The protocol is part of the name, because an EndpointSlice port belongs to
// the Service port of the same name and protocol.
type ServicePortName struct {
	ServiceName
	Port     string // the port's name; may be empty for a single port
	Protocol Protocol
}

// String returns "namespace/name", followed by ":port" for a named port.
func (n ServicePortName) String() string {
	if n.Port == "" {
		return n.ServiceName.String()
	}
	return n.ServiceName.String() + ":" + n.Port
}

// TrafficPolicy selects the endpoints that may serve internal or external traffic.
type TrafficPolicy uint8

// The traffic policies.
const (
	// PolicyCluster uses the endpoints of the whole cluster.
	PolicyCluster TrafficPolicy = iota
	// PolicyLocal uses only endpoints on this node.
	PolicyLocal
)

// Service is the part of a Service that the proxy uses. It has addresses of both
// families.
//
// A new field is filled in by package sync/source/convert. Its effect on traffic is decided in
// frontends.go. A new field here, or of [Pool] or [Frontend], must also be in the equal method of
// its type, or changes of it are ignored (a test finds fields that are not compared).
type Service struct {
	Name ServiceName
	// UID distinguishes the Service from an earlier one of the same name. It may be
	// unknown (empty).
	UID string
	// Created is in nanoseconds since the Unix epoch. Of Services that claim the same
	// address and port, the older one wins.
	Created int64

	ClusterIPs      []netip.Addr
	ExternalIPs     []netip.Addr
	LoadBalancerIPs []netip.Addr
	Ports           []ServicePort

	InternalPolicy TrafficPolicy
	ExternalPolicy TrafficPolicy
	// SourceRanges limit the clients of the LoadBalancerIPs; empty means no limit. DeniedRanges
	// exclude some of them. With RangesForAll both also count for ExternalIPs and node ports.
	SourceRanges, DeniedRanges []netip.Prefix
	RangesForAll               bool
	// Affinity is how long a client keeps its endpoint after its last new connection;
	// zero means no affinity.
	Affinity time.Duration
	// Scheduler chooses among the endpoints.
	Scheduler Scheduler
	// PassiveChecks is what to do about unresponsive endpoints.
	PassiveChecks PassiveChecks
	// Hold is how long new connections wait for an endpoint if none is ready; zero means that they
	// are rejected immediately.
	Hold time.Duration
	// RetryRefused hides the refusals of endpoints from clients of TCP, which then connect again. A
	// Hold implies it.
	RetryRefused bool
	// SlowStart is the time after which an endpoint that joins others has all of its weight.
	SlowStart time.Duration
	// ScaleToZero reports whether a program outside decides by the demand for the Service whether it
	// has endpoints.
	ScaleToZero bool
	// Nodes serve all but the ClusterIPs.
	Nodes NodeSelector
	// HealthCheckNodePort is the port where load balancers check whether this node has
	// local endpoints; zero means none.
	HealthCheckNodePort uint16

	// The fields below decide nothing here. They explain the endpoints to people.

	// HintsField is the field, if any, that makes the control plane set hints, with its
	// value: "spec.trafficDistribution: PreferClose".
	HintsField string
	// Selects reports whether the Service has a selector, and so its endpoints are pods.
	Selects bool
}

// ServicePort is one port of a Service. NodePort is zero if unset.
type ServicePort struct {
	Name     string
	Protocol Protocol
	Port     uint16
	NodePort uint16
}

func (s *Service) equal(o *Service) bool {
	return s.Name == o.Name && s.UID == o.UID && s.Created == o.Created && slices.Equal(s.Ports, o.Ports) &&
		slices.Equal(s.ClusterIPs, o.ClusterIPs) && slices.Equal(s.ExternalIPs, o.ExternalIPs) &&
		slices.Equal(s.LoadBalancerIPs, o.LoadBalancerIPs) && slices.Equal(s.SourceRanges, o.SourceRanges) &&
		slices.Equal(s.DeniedRanges, o.DeniedRanges) && s.RangesForAll == o.RangesForAll &&
		s.InternalPolicy == o.InternalPolicy && s.ExternalPolicy == o.ExternalPolicy && s.Affinity == o.Affinity &&
		s.Scheduler == o.Scheduler && s.PassiveChecks == o.PassiveChecks && s.SlowStart == o.SlowStart &&
		s.Hold == o.Hold && s.RetryRefused == o.RetryRefused && s.ScaleToZero == o.ScaleToZero &&
		slices.Equal(s.Nodes, o.Nodes) &&
		s.HealthCheckNodePort == o.HealthCheckNodePort && s.HintsField == o.HintsField && s.Selects == o.Selects
}

func (s *Service) portName(p ServicePort) ServicePortName {
	return ServicePortName{ServiceName: s.Name, Port: p.Name, Protocol: p.Protocol}
}

// compareAge orders Services by age, the older one first, for claims and budgets. Creation times of the API
// server are in seconds; within one second the UID decides, which no author of a
// Service can choose, and without UIDs the name. The order is therefore the same on
// every node at any time.
func (s *Service) compareAge(o *Service) int {
	return cmp.Or(cmp.Compare(s.Created, o.Created), strings.Compare(s.UID, o.UID), s.Name.Compare(o.Name))
}
