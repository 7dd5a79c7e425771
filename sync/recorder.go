package sync

// A Recorder reports to users about their objects, as Kubernetes events.
type Recorder interface {
	// Warn must not block. The reason is one word in CamelCase, the note a sentence.
	Warn(o Object, reason, note string)
}

// Reasons of events.
const (
	// ReasonUnusable: the object is not served, wholly or in part.
	ReasonUnusable = "Unusable"
	// ReasonRefused: the kernel refused it.
	ReasonRefused = "RefusedByKernel"
	// ReasonOpen: source ranges of one family leave the other one open.
	ReasonOpen = "OpenToAnyone"
	// ReasonConflict: another Service holds the address and port.
	ReasonConflict = "AddressConflict"
	// ReasonHealthCheck: the health check node port is in use. The name is kube-proxy's.
	ReasonHealthCheck = "FailedToStartServiceHealthcheck"
	// ReasonLocalhost: a node port on localhost is in use.
	ReasonLocalhost = "FailedToStartLocalhostNodePort"
)

// nopRecorder does nothing.
type nopRecorder struct{}

func (nopRecorder) Warn(Object, string, string) {}
