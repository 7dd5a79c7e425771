// Package nodestatus has the status of a node's proxy as a [Document] for people and programs:
// what it programs, its connections and its problems, and what follows from a document
// alone, such as the states of Services.
//
//	loop snapshot -+
//	conntrack      +--nodestatus/build--> Document --nodestatus/client--> get, explain, page
//	kernel --------+
//
// The document uses the words of the Service API: ClusterIP, Local, IPv4. Programs on other
// machines and platforms read documents, too, so this package imports nothing of the node.
package nodestatus

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"time"

	"kube-vmap/model"
)

// Sources of a [Document].
const (
	FromDaemon = "daemon" // the running process: all there is to know
	FromKernel = "kernel" // what the tables hold, and nothing of the objects behind it
)

// Schema is the number of the documents of this version; see package schema. Documents
// without a number are from v0.1.0.
const Schema = 1

// Document is what a node programs at one moment.
type Document struct {
	Schema int `json:"schema"`
	// Source is [FromDaemon] or [FromKernel]. Fields marked "daemon only" are empty in a
	// document from the kernel.
	Source  string    `json:"source"`
	Time    time.Time `json:"time"`
	Node    string    `json:"node,omitempty"`    // daemon only
	Version string    `json:"version,omitempty"` // of the process that made it
	// Ready reports whether the first state has been programmed; daemon only.
	Ready bool `json:"ready"`
	// Counted reports whether connections are counted; if not, Connections are zero.
	Counted bool `json:"counted"`
	// CountedAt is when Connections were read, usually less than a second before Time; if
	// they are not counted, when Active was read; zero if neither was. Documents with the
	// same CountedAt have the same numbers.
	CountedAt time.Time `json:"countedAt,omitzero"`
	// FastPath is how many connections of the node take a flowtable, of all Services.
	FastPath int `json:"fastPath,omitempty"`
	// ObservedSeconds is how long responses of endpoints were observed, which [Query].Observe
	// asks for; zero means that Refused and Unanswered of endpoints are not known.
	ObservedSeconds float64 `json:"observedSeconds,omitempty"`
	// NodeAddresses serve node ports.
	NodeAddresses []string `json:"nodeAddresses,omitempty"`
	// PodRanges distinguish pods from other hosts, if configured; daemon only.
	PodRanges []string `json:"podRanges,omitempty"`
	// Services are sorted by namespace and name. If nothing of one is programmed,
	// it is included, with the reason among their Problems; daemon only.
	Services []Service `json:"services"`
	// Problems are about other objects than Services; daemon only.
	Problems []Problem `json:"problems,omitempty"`
	// Health is the health of the process; daemon only.
	Health *Health `json:"health,omitempty"`
}

// Service is what is programmed of one Service.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ports are the Service's, once for each IP family; sorted by family, name
	// and protocol.
	Ports []Port `json:"ports"`
	// Addresses counts the endpoints in a brief document; nil in one that lists them. See
	// [Service.EndpointCount].
	Addresses *Addresses `json:"addresses,omitempty"`
	Problems  []Problem  `json:"problems,omitempty"` // daemon only
	// Contested are problems of other Services, which want an address and port of this
	// one; daemon only.
	Contested []Problem `json:"contested,omitempty"`
	// HintsField is the field that makes the control plane set hints, with its value:
	// "spec.trafficDistribution: PreferClose"; daemon only.
	HintsField string `json:"hintsField,omitempty"`
	// SchedulerField is the annotation that names the scheduler, with its value; empty if
	// the node's is used; daemon only.
	SchedulerField string `json:"schedulerField,omitempty"`
	// WithoutSelector reports whether the endpoints are not found by a selector; daemon only.
	WithoutSelector bool `json:"withoutSelector,omitempty"`
}

// Addresses counts the addresses of a Service's endpoints, over all ports.
type Addresses struct {
	Used int `json:"used"` // get connections
	All  int `json:"all"`  // in EndpointSlices, or used
}

// Port is one port of a Service in one IP family, with its frontends and endpoints.
type Port struct {
	Name     string `json:"name,omitempty"` // empty for the only, unnamed one
	Protocol string `json:"protocol"`       // TCP, UDP, SCTP
	Family   string `json:"family"`         // IPv4, IPv6
	// Scheduler is how an endpoint is chosen: random, rr, sh, mh, lc.
	Scheduler string `json:"scheduler"`
	// AffinitySeconds is the timeout of session affinity; zero means none.
	AffinitySeconds int `json:"affinitySeconds,omitempty"`
	// RetryRefused reports whether connections that an endpoint refuses are retried; daemon only.
	RetryRefused bool `json:"retryRefused,omitempty"`
	// Frontends are sorted: ClusterIP first, then by kind and address.
	Frontends []Frontend `json:"frontends"`
	// Rejected is why connections are refused: NoEndpoints, NotReady or Drained; daemon only.
	Rejected string `json:"rejected,omitempty"`
	// Waiting is who waits for an endpoint; daemon only.
	Waiting *Waiting `json:"waiting,omitempty"`
	// Endpoints are sorted by address, and include those that get no connections, with
	// the reason (daemon only).
	Endpoints []Endpoint `json:"endpoints"`
	// NotListed counts endpoints that do not have the port, or of a port that is not programmed,
	// which are not in Endpoints: a Service may have many ports with many of these.
	NotListed int `json:"notListed,omitempty"`
	Traffic
}

// Frontend is one address and port that clients connect to.
type Frontend struct {
	Address string `json:"address,omitempty"` // empty for a node port
	Port    uint16 `json:"port"`
	// ClusterIP, NodePort, ExternalIP, LoadBalancerIP; External where only the kernel is known
	Kind   string `json:"kind"`
	Policy string `json:"policy"` // Cluster, Local
	// Verdict is Balance if the policy leaves endpoints, else Reject, Drop or Hold; Elsewhere if
	// only other nodes serve it.
	Verdict string `json:"verdict"`
	// Masquerade is for which clients the source becomes the node's address: never,
	// off-pod (all but pods) or always.
	Masquerade string `json:"masquerade"`
	// Restricted reports whether only clients in Sources, which may be empty, are let in, unless Denied
	// has them, too.
	Restricted bool     `json:"restricted,omitempty"`
	Sources    []string `json:"sources,omitempty"`
	Denied     []string `json:"denied,omitempty"`
	Traffic
}

// Endpoint is one address that serves, or could.
type Endpoint struct {
	Address string `json:"address"`
	Port    uint16 `json:"port"`
	// Slot is its index among the endpoints of the cluster, LocalSlot among the ones of this
	// node; nil if it has none.
	Slot      *int `json:"slot,omitempty"`
	LocalSlot *int `json:"localSlot,omitempty"`
	// Share is how many slots of the cluster have it, LocalShare how many of this node;
	// zero if all endpoints have one.
	Share      int `json:"share,omitempty"`
	LocalShare int `json:"localShare,omitempty"`
	// SlowStart is the part of its weight that it gets while it starts, as "1/8"; daemon only.
	SlowStart string `json:"slowStart,omitempty"`
	// Reason is why it gets no new connections; empty if it does.
	Reason string `json:"reason,omitempty"`
	// The fields of the EndpointSlices; daemon only.
	Node string `json:"node,omitempty"`
	// Weight is the weight of its EndpointSlice, unless it is 1, or 0: of a drained endpoint, the
	// Reason is Drained.
	Weight int `json:"weight,omitempty"`
	*Conditions
	ZoneHints []string `json:"zoneHints,omitempty"`
	NodeHints []string `json:"nodeHints,omitempty"`
	// Manual reports whether no controller of Kubernetes manages its EndpointSlice.
	Manual bool `json:"manual,omitempty"`
	// Refused counts connections that the endpoint refused while it was observed, Unanswered
	// those without any answer then.
	Refused    int `json:"refused,omitempty"`
	Unanswered int `json:"unanswered,omitempty"`
	// Unresponsive is set if the endpoint is unresponsive, or possibly so; daemon only.
	Unresponsive *Unresponsive `json:"unresponsive,omitempty"`
	Traffic
}

// Waiting says how many clients wait for an endpoint, and when the first packet of one came.
type Waiting struct {
	Clients int       `json:"clients"`
	Since   time.Time `json:"since"`
}

// Conditions are the conditions of an endpoint in its EndpointSlice.
type Conditions struct {
	Ready       bool `json:"ready"`
	Serving     bool `json:"serving"`
	Terminating bool `json:"terminating,omitempty"`
}

// KnownConditions returns the endpoint's conditions; all are false if not known.
func (e *Endpoint) KnownConditions() Conditions {
	if e.Conditions == nil {
		return Conditions{}
	}
	return *e.Conditions
}

// Traffic counts connections.
type Traffic struct {
	Connections uint64 `json:"connections"` // so far
	Active      int    `json:"active"`      // tracked by the kernel now
	// FastPath is how many of the active ones take a flowtable, past the rules.
	FastPath int `json:"fastPath,omitempty"`
	// Retried counts refusals of endpoints that clients did not see, NotRetried others, where the Service
	// retries.
	Retried    uint64 `json:"retried,omitempty"`
	NotRetried uint64 `json:"notRetried,omitempty"`
	// Uncounted reports that Connections lack those to a frontend that is not counted now,
	// because its namespace has more than its share of the counters. Its endpoints' resets
	// are not known either.
	Uncounted bool `json:"uncounted,omitempty"`
}

// Add adds other counts.
func (t *Traffic) Add(more *Traffic) {
	t.Connections += more.Connections
	t.Active += more.Active
	t.FastPath += more.FastPath
	t.Retried += more.Retried
	t.NotRetried += more.NotRetried
	t.Uncounted = t.Uncounted || more.Uncounted
}

// EachPort returns all ports with their Services; none of a document that is nil.
func (d *Document) EachPort() iter.Seq2[*Service, *Port] {
	return func(yield func(*Service, *Port) bool) {
		for i := 0; d != nil && i < len(d.Services); i++ {
			s := &d.Services[i]
			for k := range s.Ports {
				if !yield(s, &s.Ports[k]) {
					return
				}
			}
		}
	}
}

// NotCounted reports whether connections of the document's Services are not counted now,
// although others are.
func (d *Document) NotCounted() bool {
	for _, p := range d.EachPort() {
		if p.Uncounted {
			return true
		}
	}
	return slices.ContainsFunc(d.Problems, func(p Problem) bool { return p.Reason == ReasonNotCounted })
}

// Write writes a document as JSON.
func (d *Document) Write(w io.Writer) error { return json.NewEncoder(w).Encode(d) }

// Problem is why an object or a part of it is not programmed, or what may surprise
// about it.
type Problem struct {
	// Object is "Kind namespace/name", or "Kind name"; or the port of a Service.
	Object string `json:"object"`
	// Reason is the one of the event about it, such as Unusable or AddressConflict.
	Reason string `json:"reason"`
	Text   string `json:"text"`
	// Field is the field of the object that causes it, as in YAML; empty if it is not known.
	Field string                 `json:"field,omitempty"`
	Args  `json:"args,omitzero"` // of the text, unless that is an error's
}

// Args are what the words about a problem or finding name, besides object and field.
type Args struct {
	Hit int `json:"hit,omitempty"` // endpoints concerned, of one port and family
	All int `json:"all,omitempty"` // endpoints that could serve that
	// Named are the first of the endpoints concerned, of NamedOf.
	Named   []string  `json:"named,omitempty"`
	NamedOf int       `json:"namedOf,omitempty"`
	Count   int       `json:"count,omitempty"`   // connections
	Clients int       `json:"clients,omitempty"` // of these
	Number  int       `json:"number,omitempty"`  // a port, or how many
	Seconds int       `json:"seconds,omitempty"`
	Names   []string  `json:"names,omitempty"` // such as source ranges, or kinds of objects
	Since   time.Time `json:"since,omitzero"`
	Family  string    `json:"family,omitempty"`
	Message string    `json:"message,omitempty"` // of an error or another program, or a name
	Details []string  `json:"details,omitempty"` // to add to the words
}

// IsZero reports whether there are none.
func (a *Args) IsZero() bool { return reflect.DeepEqual(*a, Args{}) }

// Query selects the part of a [Document] that is wanted.
type Query struct {
	// Namespace and Name select Services; empty means all.
	Namespace, Name string
	// Brief counts endpoints instead of listing them.
	Brief bool
	// Health asks for no Services at all, but for the [Health] of the process.
	Health bool
	// Observe is how long to observe how endpoints respond; zero means not at all.
	Observe time.Duration
}

// Values returns the query as URL parameters, for [ParseQuery].
func (q Query) Values() url.Values {
	v, truth := url.Values{}, map[bool]string{true: "true"}
	for name, value := range map[string]string{
		"namespace": q.Namespace, "name": q.Name, "brief": truth[q.Brief], "health": truth[q.Health],
		"observe": only(q.Observe > 0, q.Observe.String()),
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return v
}

// Args returns the query as arguments of kube-vmap status, in the form that deploy/kubectl permits.
func (q Query) Args() (args []string) {
	values := q.Values()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		arg := "--" + name
		if name != "brief" && name != "health" {
			arg += "=" + values.Get(name)
		}
		args = append(args, arg)
	}
	return args
}

// ParseQuery reads a query from URL parameters.
func ParseQuery(v url.Values) Query {
	observe, _ := time.ParseDuration(v.Get("observe")) // zero if it is malformed
	return Query{
		Namespace: v.Get("namespace"), Name: v.Get("name"),
		Brief: v.Get("brief") == "true", Health: v.Get("health") == "true", Observe: observe,
	}
}

// Matches reports whether the query asks for the Service.
func (q Query) Matches(n model.ServiceName) bool {
	return (q.Namespace == "" || q.Namespace == n.Namespace) && (q.Name == "" || q.Name == n.Name)
}

// Source returns the document for a query.
type Source func(ctx context.Context, q Query) (*Document, error)

// MaxObserved is the longest observation of how endpoints respond.
const MaxObserved = 10 * time.Second

// CheckObserve returns an error unless a node can observe for that long.
func CheckObserve(d time.Duration) error {
	if d < 0 || d > MaxObserved {
		return fmt.Errorf("--observe: %s is not between 0 and %s", d, MaxObserved)
	}
	return nil
}

// namespaceName is what Kubernetes accepts (RFC 1123), also as the name of a Service.
var namespaceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckNamespace returns an error unless a namespace can have the name; an empty one is valid.
func CheckNamespace(name string) error {
	if name != "" && !namespaceName.MatchString(name) {
		return fmt.Errorf("--namespace: %.70q is not the name of a namespace: it has at most 63 lower case letters, "+
			"digits and hyphens", name)
	}
	return nil
}

// maxName is longer than any name, address or port of a Service or endpoint.
const maxName = 253

// CheckNames returns an error if a name on the command line is too long for one.
func CheckNames(names []string) error {
	for _, name := range names {
		if len(name) > maxName {
			return fmt.Errorf("%.40q... has %d characters, and a name at most %d", name, len(name), maxName)
		}
	}
	return nil
}
