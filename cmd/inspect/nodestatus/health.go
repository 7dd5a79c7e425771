package nodestatus

import "time"

// Health is how a process does its work, of all Services together. It is daemon only.
type Health struct {
	Started time.Time `json:"started"` // the process
	// Source is where objects are read from.
	Source string `json:"source"`
	// Positions are how far the API server was followed; none with manifests.
	Positions []Position `json:"positions,omitempty"`
	Sync      Sync       `json:"sync"`
	Refused   Refused    `json:"refused"`
	// Repairs are of tables that another program had changed.
	Repairs Count `json:"repairs"`
	// Protect reports whether tables should belong to the process: the kernel can do that,
	// and it is not disabled.
	Protect bool    `json:"protect"`
	Tables  []Table `json:"tables"`
	// Warnings are the warnings and errors of its log.
	Warnings Count `json:"warnings"`
	// Problems are about the node itself; no event reports them.
	Problems []Problem `json:"problems,omitempty"`
	Takeover Takeover  `json:"takeover"`
	// FastPath is the one of established connections; nil if it is not asked for.
	FastPath *FastPath `json:"fastPath,omitempty"`
	// PassiveHealth is nil if it is not known.
	PassiveHealth *PassiveHealth `json:"passiveHealth,omitempty"`
	// WaitingPorts counts the Service ports, of one family, whose clients wait for an endpoint.
	WaitingPorts int `json:"waitingPorts,omitempty"`
	// Network is nil if it is not known.
	Network *Network `json:"network,omitempty"`
	// Localhost are the loopback addresses at which kube-vmap accepts connections to node ports.
	Localhost []string `json:"localhost,omitempty"`
}

// Network is the state of the node's network.
type Network struct {
	// Tracked is how many connections the kernel tracks, of at most TrackedMax.
	Tracked    int `json:"tracked"`
	TrackedMax int `json:"trackedMax"`
}

// PassiveHealth is what passive health checks found.
type PassiveHealth struct {
	// Endpoints counts unresponsive ones, and Possibly the ones that may be unresponsive.
	Endpoints int `json:"endpoints"`
	Possibly  int `json:"possibly,omitempty"`
	// LateSeconds is how long ago connections were last read that should have been read since;
	// zero if in time.
	LateSeconds int `json:"lateSeconds,omitempty"`
}

// Unresponsive is since when an endpoint is unresponsive: Connections of Clients have no reply now,
// and Probes had none.
type Unresponsive struct {
	Since       time.Time `json:"since"`
	Clients     int       `json:"clients,omitempty"`
	Connections int       `json:"connections,omitempty"`
	Probes      int       `json:"probes,omitempty"`
	// Possibly means that it is not known, because probes do not count: none is known to reach
	// the endpoint, or, if ProbesWorked, other endpoints do not reply to any either.
	Possibly     bool   `json:"possibly,omitempty"`
	ProbesWorked bool   `json:"probesWorked,omitempty"`
	NotAvoided   string `json:"notAvoided,omitempty"` // [LastEndpoint], or [MaxPercent] are avoided
}

// FastPath says whether packets of established connections to Services bypass the rules.
type FastPath struct {
	On           bool   `json:"on"`
	Reason       string `json:"reason,omitempty"` // why it is off
	Interfaces   int    `json:"interfaces"`
	AfterPackets int    `json:"afterPackets"` // of a connection
}

// Position is how far a process has followed the objects of one kind.
type Position struct {
	Kind string `json:"kind"` // such as Service
	// ResourceVersion is the newest one that the API server has sent, with an object, a
	// list or a bookmark; empty before the first list.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// FailingSince is when requests began to fail with Error; zero if they do not.
	FailingSince time.Time `json:"failingSince,omitzero"`
	Error        string    `json:"error,omitempty"`
}

// Sync is the work of bringing the kernel to the desired state.
type Sync struct {
	Last time.Time `json:"last,omitzero"` // success; zero if there was none
	// FailingSince is when the first attempt after that failed; Error is the error of the last
	// one.
	FailingSince time.Time `json:"failingSince,omitzero"`
	Error        string    `json:"error,omitempty"`
	// PendingSince is when the oldest change was queued that is not programmed; zero if
	// there is none. Overdue means that the liveness probe fails for it.
	PendingSince time.Time `json:"pendingSince,omitzero"`
	Overdue      bool      `json:"overdue,omitempty"`
	// UnreadSince is since when the tables cannot be compared with what they should be, for
	// the reason Unread. Changes are programmed all the same.
	UnreadSince time.Time `json:"unreadSince,omitzero"`
	Unread      string    `json:"unread,omitempty"`
}

// Refused counts what is not programmed.
type Refused struct {
	Ports     int `json:"ports"`     // Service ports in quarantine: the kernel refuses them
	Objects   int `json:"objects"`   // objects that cannot be used, wholly or in part
	Conflicts int `json:"conflicts"` // addresses and ports that another Service holds
}

// Count is how often something happened since the process started, and the last time.
type Count struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last,omitzero"`
	Text  string    `json:"text,omitempty"` // of the last time, if there is one
}

// Table is the state of our table in one family.
type Table struct {
	Family string `json:"family"`
	State  string `json:"state"`
}

// States of a [Table].
const (
	TableOwned   = "Owned"   // by the process: no other program can change it
	TableOpen    = "Open"    // without an owner: changes of other programs are repaired
	TableForeign = "Foreign" // owned by another program
	TableDormant = "Dormant" // disabled by another program
	TableMissing = "Missing"
)

// Takeover is how far the process has taken the place of kube-proxy.
type Takeover struct {
	State string `json:"state"`          // see below
	Text  string `json:"text,omitempty"` // what there is to know about it
}

// States of a [Takeover].
const (
	TakeoverStarting   = "starting"
	TakeoverOtherProxy = "other-proxy"
	TakeoverProbation  = "probation"
	TakeoverDone       = "done"
	TakeoverReturned   = "returned"
)

// Owned returns the families of the tables that the process owns.
func (h *Health) Owned() (families []string) {
	for _, t := range h.Tables {
		if t.State == TableOwned {
			families = append(families, t.Family)
		}
	}
	return families
}

// Position returns the resource version up to which the process has followed objects of a kind; empty
// if it does not follow them, or has no list yet.
func (h *Health) Position(kind string) string {
	for _, p := range h.Positions {
		if p.Kind == kind {
			return p.ResourceVersion
		}
	}
	return ""
}

// Refusals counts everything that is not programmed.
func (h *Health) Refusals() int { return h.Refused.Ports + h.Refused.Objects + h.Refused.Conflicts }

// IsFastPathOn reports whether established connections on the document's node may take the
// fast path.
func (d *Document) IsFastPathOn() bool {
	return d.Health != nil && d.Health.FastPath != nil && d.Health.FastPath.On
}

// FastPathReason returns why they may not, although that was asked for; empty if they may, or
// if it is not known yet.
func (d *Document) FastPathReason() string {
	if d.Health == nil || d.Health.FastPath == nil || d.Health.FastPath.On {
		return ""
	}
	return d.Health.FastPath.Reason
}
