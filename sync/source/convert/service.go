// Package convert reduces Kubernetes objects to model values. It is pure: the
// result depends on the object alone, never on what the object was before, because
// an address that it gave up may be another object's now.
//
//	corev1.Service ------------> Service -----> model.Service
//	discoveryv1.EndpointSlice -> Slice -------> model.EndpointSlice
//	corev1.Node ---------------> Node --------> model.Node
//	networkingv1.ServiceCIDR --> ServiceCIDR -> []netip.Prefix
//
// Each conversion has one of four results:
//
//	value, no errors   the object, whole
//	value, errors      the object without the parts that the errors name, or
//	                   whole, if an error only warns
//	nil, errors        invalid: nothing of the object can be used
//	nil, no errors     an object that this proxy does not serve
//
// The API server validates its objects, the author of a manifest may not have, and old objects
// passed older validation. So everything is validated again, and the smallest part that makes sense
// is skipped: a bad entry of a list, or a list that is too long. A bad choice among words is
// replaced by the API's default. An object is invalid only if it is unclear what it claims.
//
// # Another field, annotation or label
//
//	of a Service        service.go, service_lists.go; annotations.go for an
//	                    annotation. model/service.go, whose comments name what compares it
//	of an endpoint      slice.go. model/endpointslice.go, and the choice between
//	                    duplicates in model/candidates.go
//	of a Node           node.go. model/node.go
//
// A label or annotation must be added to Keys in annotations.go, a field of an endpoint or of
// metadata to package sync/source/cluster/protobuf, which decodes no others.
// converttest.Draw should draw it, too.
package convert

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

// maxAffinitySeconds is the longest session affinity the API allows: a day.
const maxAffinitySeconds = 86400

// Service reduces a Service to the fields that the proxy reads. It returns nil without errors for a
// Service that this proxy does not serve: a headless Service, one without a ClusterIP or of type
// ExternalName, and one left to another proxy. It returns nil with errors if the Service is
// invalid. A Service with errors lacks the parts that they name.
func Service(s *corev1.Service) (*model.Service, field.ErrorList) {
	if !isProxied(s) {
		return nil, nil
	}
	var f findings
	f.checkNames(&s.ObjectMeta, validation.IsDNS1123Label)
	f.checkServiceType(s.Spec.Type)
	f.invalidate(tooMany(pathServicePorts, len(s.Spec.Ports), maxFrontends))
	clusterIPs := f.clusterIPs(&s.Spec)
	if f.invalid {
		// Without ClusterIPs, every other address would be one more error.
		return nil, f.list()
	}
	out := &model.Service{
		Name:           model.ServiceName{Namespace: s.Namespace, Name: s.Name},
		UID:            string(s.UID),
		Created:        created(s.CreationTimestamp),
		ClusterIPs:     clusterIPs,
		ExternalIPs:    f.externalIPs(&s.Spec, clusterIPs),
		Ports:          f.servicePorts(&s.Spec),
		InternalPolicy: f.internalPolicy(&s.Spec),
		ExternalPolicy: f.externalPolicy(&s.Spec),
		Affinity:       f.affinity(&s.Spec),
		Scheduler:      annotation(&f, s.Annotations, annotationScheduler, ParseScheduler),
		PassiveChecks:  annotation(&f, s.Annotations, annotationPassiveChecks, ParsePassiveChecks),
		Hold:           annotation(&f, s.Annotations, annotationHold, parseHold),
		RetryRefused:   annotation(&f, s.Annotations, annotationRetryRefused, parseRetryRefused),
		SlowStart:      annotation(&f, s.Annotations, annotationSlowStart, parseSlowStart),
		Nodes:          annotation(&f, s.Annotations, annotationNodes, parseNodes),

		HealthCheckNodePort: f.healthCheckNodePort(&s.Spec),

		HintsField: hintsField(s),
		Selects:    len(s.Spec.Selector) > 0,
	}
	f.loadBalancer(out, s)
	f.scaleToZero(out, s.Annotations)
	f.limitAddresses(out)
	f.limitTables(out)
	f.checkSlowStart(out)
	if f.invalid {
		return nil, f.list()
	}
	return out, f.list()
}

// isProxied reports whether the Service has a virtual address for this proxy to serve.
func isProxied(s *corev1.Service) bool {
	switch s.Spec.ClusterIP {
	case "", corev1.ClusterIPNone:
		return false
	}
	return model.Serves(s.Labels) && s.Spec.Type != corev1.ServiceTypeExternalName
}

// checkServiceType records an error for an unknown type, which is served as ClusterIP,
// the API's default.
func (f *findings) checkServiceType(t corev1.ServiceType) {
	known := []corev1.ServiceType{
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName,
	}
	if t != "" && !slices.Contains(known, t) {
		f.skip(field.NotSupported(field.NewPath("spec", "type"), t, known))
	}
}

// Limits of one Service: an object of some kilobytes must not fill the memory of every
// node. The API server does not limit the lists. docs/security.md and docs/limits.md name
// them; integration/cluster (TestAbuse) measures objects at these limits. The limits of a
// namespace are in sync/loop.go and model/budget.go.
const (
	maxFrontends    = 10_000 // ports times addresses
	maxExternalIPs  = 2_000  // ports times external IPs
	maxSourceRanges = 20_000 // addresses and ports that have source ranges, times these
)

func tooMany(path *field.Path, n, limit int) *field.Error {
	if n <= limit {
		return nil
	}
	return field.TooMany(path, n, limit)
}

// limitAddresses removes the addresses that would take too much memory of every node:
// external IPs first, which need nothing but the author's wish, then the load balancers'
// addresses. If the ClusterIPs alone exceed the limit, the Service is invalid.
func (f *findings) limitAddresses(s *model.Service) {
	ports, addrs := len(s.Ports), len(s.ClusterIPs)+len(s.LoadBalancerIPs)
	if f.skip(tooMany(pathExternalIPs, ports*len(s.ExternalIPs), maxExternalIPs)) {
		s.ExternalIPs = nil
	}
	if f.skip(tooMany(pathIngress, ports*addrs, maxFrontends),
		tooMany(pathSourceRanges, s.RangeCount(), maxSourceRanges)) {
		dropRestricted(s)
	}
	f.invalidate(tooMany(pathServicePorts, ports*len(s.ClusterIPs), maxFrontends))
}

// internalPolicy returns the policy for traffic to the ClusterIPs (KEP-2086).
func (f *findings) internalPolicy(spec *corev1.ServiceSpec) model.TrafficPolicy {
	if spec.InternalTrafficPolicy == nil {
		return model.PolicyCluster
	}
	return f.trafficPolicy("internalTrafficPolicy", string(*spec.InternalTrafficPolicy))
}

// externalPolicy returns the policy for traffic to all other addresses. Without any,
// it is always Cluster.
func (f *findings) externalPolicy(spec *corev1.ServiceSpec) model.TrafficPolicy {
	policy := f.trafficPolicy("externalTrafficPolicy", string(spec.ExternalTrafficPolicy))
	if hasNodePorts(spec) || len(spec.ExternalIPs) > 0 {
		return policy
	}
	return model.PolicyCluster
}

func (f *findings) trafficPolicy(name, value string) model.TrafficPolicy {
	switch value {
	case "Cluster", "":
		return model.PolicyCluster
	case "Local":
		return model.PolicyLocal
	}
	f.skip(field.NotSupported(field.NewPath("spec", name), value, []string{"Cluster", "Local"}))
	return model.PolicyCluster
}

// affinity returns how long a client keeps its endpoint; zero for no affinity.
func (f *findings) affinity(spec *corev1.ServiceSpec) time.Duration {
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone, "":
		return 0
	case corev1.ServiceAffinityClientIP:
		return f.affinityTimeout(spec.SessionAffinityConfig)
	}
	f.skip(field.NotSupported(field.NewPath("spec", "sessionAffinity"), spec.SessionAffinity,
		[]corev1.ServiceAffinity{corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone}))
	return 0
}

func (f *findings) affinityTimeout(config *corev1.SessionAffinityConfig) time.Duration {
	seconds := corev1.DefaultClientIPServiceAffinitySeconds
	if config != nil && config.ClientIP != nil && config.ClientIP.TimeoutSeconds != nil {
		seconds = *config.ClientIP.TimeoutSeconds
	}
	if seconds < 1 || seconds > maxAffinitySeconds {
		path := field.NewPath("spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds")
		f.skip(field.Invalid(path, seconds, validation.InclusiveRangeError(1, maxAffinitySeconds)))
		seconds = corev1.DefaultClientIPServiceAffinitySeconds
	}
	return time.Duration(seconds) * time.Second
}

// healthCheckNodePort returns the port where load balancers check for local endpoints,
// which they do only under the Local policy.
func (f *findings) healthCheckNodePort(spec *corev1.ServiceSpec) uint16 {
	if spec.Type != corev1.ServiceTypeLoadBalancer || spec.HealthCheckNodePort == 0 ||
		spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return 0
	}
	port, err := portNumber(field.NewPath("spec"), "healthCheckNodePort", spec.HealthCheckNodePort)
	f.skip(err)
	return port
}

func hasFamilyOf(clusterIPs []netip.Addr, addr netip.Addr) bool {
	return slices.ContainsFunc(clusterIPs, func(ip netip.Addr) bool {
		return model.FamilyOf(ip) == model.FamilyOf(addr)
	})
}
