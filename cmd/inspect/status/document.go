package status

import "time"

// Sources of a [Document].
const (
	FromDaemon = "daemon" // the running process: all there is to know
	FromKernel = "kernel" // what the tables hold, and nothing of the objects behind it
)

// Document is what a node programs at one moment.
type Document struct {
	// Source is [FromDaemon] or [FromKernel]. What only the daemon knows is left
	// empty in a document from the kernel: it says so at each field.
	Source  string    `json:"source"`
	Time    time.Time `json:"time"`
	Node    string    `json:"node,omitempty"`    // daemon only
	Version string    `json:"version,omitempty"` // of the process that made it
	// Ready tells that the first state stands; daemon only.
	Ready bool `json:"ready"`
	// Counted tells whether connections are counted; without, all Connections are
	// zero.
	Counted bool `json:"counted"`
	// CountedAt is when the kernel was asked for Connections, a second or some before
	// Time; without, when it was asked for Active ones; zero if for neither. Of the
	// same CountedAt are the same numbers.
	CountedAt time.Time `json:"countedAt,omitzero"`
	// NodeAddresses serve node ports.
	NodeAddresses []string `json:"nodeAddresses,omitempty"`
	// PodRanges distinguish pods from other hosts, if configured; daemon only.
	PodRanges []string `json:"podRanges,omitempty"`
	// Services are sorted by namespace and name. One that the API has and of which
	// nothing is programmed is there, too, with the reason among its Problems; daemon
	// only.
	Services []Service `json:"services"`
	// Problems are those with objects that are no Services; daemon only.
	Problems []Problem `json:"problems,omitempty"`
}

// Service is what is programmed of one Service.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ports are those of the Service, once for each IP family; sorted by family, name
	// and protocol.
	Ports []Port `json:"ports"`
	// Addresses is how many endpoints there are, in a document that is brief; nil in
	// one that lists them. See [Service.EndpointCount].
	Addresses *Addresses `json:"addresses,omitempty"`
	Problems  []Problem  `json:"problems,omitempty"` // daemon only
	// Contested are problems of other Services, which want an address and port that
	// this one has; daemon only.
	Contested []Problem `json:"contested,omitempty"`
}

// Addresses are those of a Service's endpoints, over all ports: each counts once.
type Addresses struct {
	Used int `json:"used"` // get connections
	All  int `json:"all"`  // in EndpointSlices, or used
}

// Port is one port of a Service in one IP family, and everything that shares its
// endpoints.
type Port struct {
	Name     string `json:"name,omitempty"` // empty for the only, unnamed one
	Protocol string `json:"protocol"`       // TCP, UDP, SCTP
	Family   string `json:"family"`         // IPv4, IPv6
	// Scheduler is how an endpoint is chosen: random, rr, sh, mh.
	Scheduler string `json:"scheduler"`
	// AffinitySeconds is how long a client keeps its endpoint; zero means no affinity.
	AffinitySeconds int `json:"affinitySeconds,omitempty"`
	// Frontends are sorted: ClusterIP first, then by kind and address.
	Frontends []Frontend `json:"frontends"`
	// Endpoints are sorted by address; those that get no connections are among them,
	// with the reason (daemon only).
	Endpoints []Endpoint `json:"endpoints"`
	Traffic
}

// Frontend is one address and port that clients ask.
type Frontend struct {
	Address string `json:"address,omitempty"` // empty for a node port
	Port    uint16 `json:"port"`
	Kind    string `json:"kind"`   // ClusterIP, NodePort, ExternalIP, LoadBalancerIP; External where only the kernel is known
	Policy  string `json:"policy"` // Cluster, Local
	// Verdict is what happens to those whom the policy leaves no endpoint: Balance if
	// it leaves some, else Reject or Drop.
	Verdict string `json:"verdict"`
	// Masquerade tells whose source becomes the node's address: never, off-pod (all
	// that are not pods) or always.
	Masquerade string `json:"masquerade"`
	// Restricted tells that only Sources, which may be none, may come.
	Restricted bool     `json:"restricted,omitempty"`
	Sources    []string `json:"sources,omitempty"`
	Traffic
}

// Endpoint is one address that serves, or might.
type Endpoint struct {
	Address string `json:"address"`
	Port    uint16 `json:"port"`
	// Slot is its place among those for the whole cluster, LocalSlot among those of
	// this node; nil where it has none.
	Slot      *int `json:"slot,omitempty"`
	LocalSlot *int `json:"localSlot,omitempty"`
	// Reason is why it gets no new connections; empty if it does.
	Reason string `json:"reason,omitempty"`
	// What the EndpointSlices say; daemon only.
	Node string `json:"node,omitempty"`
	*Conditions
	ZoneHints []string `json:"zoneHints,omitempty"`
	NodeHints []string `json:"nodeHints,omitempty"`
	Traffic
}

// Conditions are what an EndpointSlice says of an endpoint.
type Conditions struct {
	Ready       bool `json:"ready"`
	Serving     bool `json:"serving"`
	Terminating bool `json:"terminating,omitempty"`
}

// Known are the endpoint's conditions; none is true where they are not known.
func (e *Endpoint) Known() Conditions {
	if e.Conditions == nil {
		return Conditions{}
	}
	return *e.Conditions
}

// Traffic is what went through.
type Traffic struct {
	Connections uint64 `json:"connections"` // so far
	Active      int    `json:"active"`      // tracked by the kernel now
}

// Problem is why an object, or a part of it, is not programmed as it stands, or
// what may surprise about it.
type Problem struct {
	// Object is "Kind namespace/name", or "Kind name"; or the port of a Service.
	Object string `json:"object"`
	// Reason is the one of the event about it, such as Unusable or AddressConflict.
	Reason string `json:"reason"`
	Text   string `json:"text"`
}
