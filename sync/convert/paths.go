package convert

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Paths of fields that every object has, so that objects without errors do not pay for them.
var (
	pathNamespace    = field.NewPath("metadata", "namespace")
	pathName         = field.NewPath("metadata", "name")
	pathServiceName  = field.NewPath("metadata", "labels").Key(discoveryv1.LabelServiceName)
	pathServicePorts = field.NewPath("spec", "ports")
	pathClusterIP    = field.NewPath("spec", "clusterIP")
	pathClusterIPs   = field.NewPath("spec", "clusterIPs")
	pathExternalIPs  = field.NewPath("spec", "externalIPs")
	pathSourceRanges = field.NewPath("spec", "loadBalancerSourceRanges")
	pathIngress      = field.NewPath("status", "loadBalancer", "ingress")
	pathSlicePorts   = field.NewPath("ports")
	pathEndpoints    = field.NewPath("endpoints")
)
