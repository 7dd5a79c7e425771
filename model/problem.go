package model

// Reasons of problems of objects, and of the events about them.
const (
	// ProblemUnusable: the object is not served, wholly or in part.
	ProblemUnusable = "Unusable"
	// ProblemRefused: the kernel refused it.
	ProblemRefused = "RefusedByKernel"
	// ProblemMemory: the kernel had no memory for a change, which is retried.
	ProblemMemory = "KernelOutOfMemory"
	// ProblemOpen: source ranges of one family leave the other one open.
	ProblemOpen = "OpenToAnyone"
	// ProblemConflict: another Service holds the address and port.
	ProblemConflict = "AddressConflict"
	// ProblemHealthCheck and ProblemLocalhost: a health check node port, or a node port on localhost,
	// is in use. The first name is kube-proxy's.
	ProblemHealthCheck = "FailedToStartServiceHealthcheck"
	ProblemLocalhost   = "FailedToStartLocalhostNodePort"
	// ProblemNodePorts: node ports may not be served where configured. It has no event.
	ProblemNodePorts = "NodePorts"
	// ProblemEndpointUnresponsive and ProblemEndpointPossiblyUnresponsive: passive health checks
	// found that. The latter has no event.
	ProblemEndpointUnresponsive         = "EndpointUnresponsive"
	ProblemEndpointPossiblyUnresponsive = "EndpointPossiblyUnresponsive"
	// ProblemServiceCIDR: hosts have addresses in a ServiceCIDR. It has no event.
	ProblemServiceCIDR = "ServiceCIDR"
	// ProblemAPIServer: the API server is reached through a Service. It has no event.
	ProblemAPIServer = "APIServer"
)
