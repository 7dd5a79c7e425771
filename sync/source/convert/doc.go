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
