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

// LabelServiceProxyName leaves a Service to another proxy, whatever its value
// (KEP-2447).
const LabelServiceProxyName = "service.kubernetes.io/service-proxy-name"

// maxAffinitySeconds is the longest session affinity the API allows: a day.
const maxAffinitySeconds = 86400

// Service reduces a Service to what the proxy reads of it. Headless
// Services, those without a ClusterIP, ExternalNames, and those left to another
// proxy are none of the proxy's business: nil without errors. Nil with errors is
// a Service that is refused; a Service with errors does without the parts that
// they name.
func Service(s *corev1.Service) (*model.Service, field.ErrorList) {
	if !isProxied(s) {
		return nil, nil
	}
	var f findings
	f.checkNames(&s.ObjectMeta, validation.IsDNS1123Label)
	f.checkServiceType(s.Spec.Type)
	f.refuse(tooMany(field.NewPath("spec", "ports"), len(s.Spec.Ports), maxFrontends))
	clusterIPs := f.clusterIPs(&s.Spec)
	if f.refused {
		// Without ClusterIPs, every other address would be one more complaint.
		return nil, f.all()
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
		Scheduler:      f.scheduler(s.Annotations),

		HealthCheckNodePort: f.healthCheckNodePort(&s.Spec),
	}
	out.SourceRanges, out.LoadBalancerIPs = f.loadBalancer(s, clusterIPs)
	f.limitAddresses(out)
	f.limitTables(out)
	if f.refused {
		return nil, f.all()
	}
	return out, f.all()
}

// isProxied reports whether the Service has a virtual address that is this
// proxy's to serve.
func isProxied(s *corev1.Service) bool {
	_, others := s.Labels[LabelServiceProxyName]
	switch s.Spec.ClusterIP {
	case "", corev1.ClusterIPNone:
		return false
	}
	return !others && s.Spec.Type != corev1.ServiceTypeExternalName
}

// checkServiceType reports a type that does not exist, which is served as the
// API's default, ClusterIP. ExternalName cannot come here.
func (f *findings) checkServiceType(t corev1.ServiceType) {
	known := []corev1.ServiceType{
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName,
	}
	if t != "" && !slices.Contains(known, t) {
		f.leaveOut(field.NotSupported(field.NewPath("spec", "type"), t, known))
	}
}

// Limits of one Service, so that no author can fill the node's memory with an
// object of some kilobytes. The API server sets the lists no limit.
const (
	maxFrontends = 10_000 // addresses with ports
	maxExternals = 2_000  // of them, those that only the author wants
	maxSources   = 20_000 // of them, each with each range
)

// tooMany is the error for a list, or a product of lists, that is too long; nil if
// it is not.
func tooMany(path *field.Path, n, most int) *field.Error {
	if n <= most {
		return nil
	}
	return field.TooMany(path, n, most)
}

// limitAddresses removes the addresses that would take too much of every node:
// external IPs first, which only the author wants, then those of load balancers.
// Without them a Service is within the limits.
func (f *findings) limitAddresses(s *model.Service) {
	ports, addrs := len(s.Ports), len(s.ClusterIPs)+len(s.LoadBalancerIPs)
	if f.leaveOut(tooMany(field.NewPath("spec", "externalIPs"), ports*len(s.ExternalIPs), maxExternals)) {
		s.ExternalIPs = nil
	}
	if f.leaveOut(tooMany(field.NewPath("status", "loadBalancer", "ingress"), ports*addrs, maxFrontends),
		tooMany(field.NewPath("spec", "loadBalancerSourceRanges"), ports*len(s.LoadBalancerIPs)*len(s.SourceRanges), maxSources)) {
		s.LoadBalancerIPs, s.SourceRanges = nil, nil
	}
	f.refuse(tooMany(field.NewPath("spec", "ports"), ports*len(s.ClusterIPs), maxFrontends))
}

// internalPolicy is the policy for traffic to the ClusterIPs (KEP-2086).
func (f *findings) internalPolicy(spec *corev1.ServiceSpec) model.TrafficPolicy {
	if spec.InternalTrafficPolicy == nil {
		return model.PolicyCluster
	}
	return f.trafficPolicy("internalTrafficPolicy", string(*spec.InternalTrafficPolicy))
}

// externalPolicy is the policy for traffic to all other addresses; without any
// it means nothing, whatever it says.
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
	f.leaveOut(field.NotSupported(field.NewPath("spec", name), value, []string{"Cluster", "Local"}))
	return model.PolicyCluster
}

// affinity is how long a client keeps its endpoint; zero for no affinity.
func (f *findings) affinity(spec *corev1.ServiceSpec) time.Duration {
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone, "":
		return 0
	case corev1.ServiceAffinityClientIP:
		return f.affinityTimeout(spec.SessionAffinityConfig)
	}
	f.leaveOut(field.NotSupported(field.NewPath("spec", "sessionAffinity"), spec.SessionAffinity,
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
		f.leaveOut(field.Invalid(path, seconds, validation.InclusiveRangeError(1, maxAffinitySeconds)))
		seconds = corev1.DefaultClientIPServiceAffinitySeconds
	}
	return time.Duration(seconds) * time.Second
}

// healthCheckNodePort is where load balancers ask for local endpoints, which
// only the Local policy makes them do.
func (f *findings) healthCheckNodePort(spec *corev1.ServiceSpec) uint16 {
	if spec.Type != corev1.ServiceTypeLoadBalancer || spec.HealthCheckNodePort == 0 ||
		spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return 0
	}
	port, err := portNumber(field.NewPath("spec", "healthCheckNodePort"), spec.HealthCheckNodePort)
	f.leaveOut(err)
	return port
}

// hasFamilyOf reports whether one of the ClusterIPs is of addr's family.
func hasFamilyOf(clusterIPs []netip.Addr, addr netip.Addr) bool {
	return slices.ContainsFunc(clusterIPs, func(ip netip.Addr) bool {
		return model.FamilyOf(ip) == model.FamilyOf(addr)
	})
}
