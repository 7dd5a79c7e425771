package explain

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"kube-vmap/nft/simulate"
)

// Answer is what is printed, as text, JSON or YAML.
type Answer struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Protocol string `json:"protocol"`
	// Interface is the one on which the packet arrives; empty if the node sends it.
	Interface string `json:"interface,omitempty"`
	// Elsewhere is set if the client is not on this node, so that the rules of another
	// node may apply first.
	Elsewhere *Elsewhere `json:"elsewhere,omitempty"`
	// Service is "namespace/name:port"; empty if no Service has the address and port.
	Service string `json:"service,omitempty"`
	// Kind is ClusterIP, NodePort, ExternalIP, LoadBalancerIP; External if only the
	// kernel is known.
	Kind string `json:"kind,omitempty"`
	// Arrives is always, sometimes, never or unknown. Endpoints that were not explored are
	// assumed to be like the others. If rules of other programs have unexplored choices,
	// it is unknown, unless the explored ones differ already.
	Arrives  string          `json:"arrives"`
	Outcomes []Outcome       `json:"outcomes"`
	Steps    []simulate.Step `json:"steps"`
	// Unseen are the choices that were not explored; nil if there are none.
	Unseen   *Unseen   `json:"unseen,omitempty"`
	Affinity *Affinity `json:"affinity,omitempty"`
	// Connection is the one that the packet belongs to, and Otherwise the outcomes for a
	// packet that opens one. Connections are those of the same client to the same address
	// and port from other ports, or all if no port was given.
	Connection      *Connection  `json:"connection,omitempty"`
	Otherwise       []Outcome    `json:"otherwise,omitempty"`
	OtherwiseUnseen *Unseen      `json:"otherwiseUnseen,omitempty"`
	Connections     []Connection `json:"connections,omitempty"`
	// Faults are differences of the tables from what kube-vmap writes, Doubts the rules of
	// other programs that are not understood.
	Faults []string `json:"faults,omitempty"`
	Doubts []string `json:"doubts,omitempty"`
	// Hints are from the running process.
	Hints []string `json:"hints,omitempty"`
	// Process is "answers", or why the running process does not.
	Process string `json:"process"`
}

// Outcome is what may happen to the packet.
type Outcome struct {
	Verdict     string            `json:"verdict"` // delivered, not a Service, refused, dropped, unreachable, unknown
	Probability float64           `json:"probability"`
	Endpoints   []Endpoint        `json:"endpoints,omitempty"`
	Masquerade  bool              `json:"masquerade"`
	Why         string            `json:"why,omitempty"` // for Masquerade
	How         string            `json:"how,omitempty"` // of refused, unreachable, not a Service
	By          *simulate.RuleRef `json:"by,omitempty"`
	Because     string            `json:"because,omitempty"`

	verdict simulate.Verdict
}

// Unseen are choices that were not explored, because there are too many.
type Unseen struct {
	Endpoints   int     `json:"endpoints,omitempty"` // more of the Service
	Probability float64 `json:"probability"`
	// OthersPick reports whether rules of other programs have too many choices, too.
	OthersPick bool `json:"othersPick,omitempty"`
}

// Endpoint is where the packet may go.
type Endpoint struct {
	Address     string  `json:"address"`
	Port        uint16  `json:"port"`
	Probability float64 `json:"probability"`
	Sees        string  `json:"sees"` // the client's address there
	Node        bool    `json:"thisNode,omitempty"`
}

// Affinity is the endpoint that is remembered for the client.
type Affinity struct {
	Endpoint       string `json:"endpoint"`
	ExpiresSeconds int    `json:"expiresSeconds"`
}

// Connection is an open connection.
type Connection struct {
	FromPort       uint16     `json:"fromPort"`
	Endpoint       string     `json:"endpoint"`
	Sees           string     `json:"sees"`
	State          string     `json:"state,omitempty"`
	Since          *time.Time `json:"since,omitempty"`
	ExpiresSeconds int        `json:"expiresSeconds"`
	// Stale reports whether no new connection would go to that endpoint.
	Stale bool `json:"stale,omitempty"`
}

// newAnswer returns the answer for a simulation.
func newAnswer(w simulate.Result) *Answer {
	p := w.Packet
	a := &Answer{
		From: p.From.String(), To: p.To.String(), Protocol: p.Protocol.String(), Interface: w.In,
		Service: w.Service, Kind: w.Kind, Steps: w.Steps, Unseen: unseen(w.Unexplored), Faults: w.Faults, Doubts: w.Doubts,
		Outcomes: outcomes(w.Outcomes), Otherwise: outcomes(w.IfNew), OtherwiseUnseen: unseen(w.IfNewUnexplored),
	}
	if p.FromPort != 0 {
		a.From = netip.AddrPortFrom(p.From, p.FromPort).String()
	}
	if w.Affinity != nil {
		a.Affinity = &Affinity{w.Affinity.Endpoint.String(), int(w.Affinity.Expires / time.Second)}
	}
	if w.Flow != nil {
		c := connection(*w.Flow, w)
		a.Connection = &c
	}
	for _, f := range w.Flows {
		a.Connections = append(a.Connections, connection(f, w))
	}
	a.Arrives = a.arrives()
	return a
}

func unseen(u simulate.Unexplored) *Unseen {
	if u == (simulate.Unexplored{}) {
		return nil
	}
	return &Unseen{Endpoints: u.Endpoints, Probability: u.Probability, OthersPick: u.OtherPrograms}
}

func outcomes(list []simulate.Outcome) (out []Outcome) {
	for _, o := range list {
		n := Outcome{
			Verdict: o.Verdict.String(), Probability: o.Probability, Masquerade: o.Masquerade, Why: o.Why,
			How: o.How, By: o.By, Because: o.Because, verdict: o.Verdict,
		}
		for _, e := range o.Endpoints {
			n.Endpoints = append(n.Endpoints, Endpoint{
				Address: e.Address.Addr().String(), Port: e.Address.Port(), Probability: e.Probability,
				Sees: e.Source.String(), Node: e.Local,
			})
		}
		out = append(out, n)
	}
	return out
}

func connection(f simulate.Flow, w simulate.Result) Connection {
	c := Connection{
		FromPort: f.Client.Port(), Endpoint: f.Endpoint.String(), Sees: f.SeenSource.String(), State: f.State,
		ExpiresSeconds: int(f.Expires / time.Second),
	}
	if !f.Started.IsZero() {
		c.Since = &f.Started
	}
	fresh, left := w.Outcomes, w.Unexplored
	if w.Flow != nil {
		fresh, left = w.IfNew, w.IfNewUnexplored
	}
	goes := func(o simulate.Outcome) bool {
		return slices.ContainsFunc(o.Endpoints, func(e simulate.Endpoint) bool { return e.Address == f.Endpoint })
	}
	c.Stale = !f.Reopens && w.Affinity == nil && left == (simulate.Unexplored{}) && !slices.ContainsFunc(fresh, goes)
	return c
}

// arrives returns the value of Arrives. A stale connection does not arrive.
func (a *Answer) arrives() string {
	yes, no, unknown := false, false, false
	for _, o := range a.Outcomes {
		switch {
		case o.verdict == simulate.VerdictUnknown:
			unknown = true
		case o.verdict.Arrives():
			yes = true
		default:
			no = true
		}
	}
	switch {
	case unknown:
		return Unknown
	case a.Connection != nil && a.Connection.Stale:
		return Never
	case yes && no:
		return Sometimes
	case a.Unseen != nil && a.Unseen.OthersPick:
		return Unknown
	case yes:
		return Always
	}
	return Never
}

// Values of Arrives.
const (
	Always    = "always"
	Sometimes = "sometimes"
	Never     = "never"
	Unknown   = "unknown"
)

// likeliest returns the most probable outcome.
func (a *Answer) likeliest() Outcome {
	return slices.MaxFunc(a.Outcomes, func(x, y Outcome) int { return cmp.Compare(x.Probability, y.Probability) })
}
