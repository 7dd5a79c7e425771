package findings

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/model"
)

// Sentence returns the finding in words. They are made here only, from the reason and the
// arguments, and nothing else reads them.
func (f *Finding) Sentence() string {
	return (&sentence{Finding: f, where: "this node"}).String()
}

// WithTexts sets the texts of findings, for JSON.
func WithTexts(list []Finding) []Finding {
	for i := range list {
		list[i].Text = list[i].Sentence()
	}
	return list
}

// A sentence has what the words about a finding are made of.
type sentence struct {
	*Finding
	where  string // the nodes
	placed bool   // the words name them
}

// String returns the words. Those of an older program, or about a reason of a newer one, are
// its text.
func (s *sentence) String() string {
	words := cmp.Or(s.Text, s.Message)
	a := s.Args
	a.Details = nil
	if write := sentences[cmp.Or(s.Kind, s.Reason)]; write != nil && (s.Text == "" || !a.IsZero()) {
		words = write(s)
	}
	return strings.Join(append([]string{words}, s.Details...), "; ")
}

// sentences has the words for each kind, or reason that has one kind. Findings with others are
// in the words of an error, or of another program.
var sentences = map[string]func(*sentence) string{
	NoEndpoints: func(s *sentence) string {
		return s.noEndpoint() + "the selector " + cmp.Or(s.Message, "matches no pod with an "+s.family()+"address")
	},
	kindNoSelector: func(s *sentence) string {
		return s.noEndpoint() + "the Service has no selector, and no EndpointSlice with its name has " + s.family() +
			"endpoints"
	},
	KindBehind: func(*sentence) string {
		return "no endpoint is known there, although other nodes know some: they may be behind the API server, see " +
			"kubectl vmap status"
	},
	NotProgrammed: func(s *sentence) string {
		if s.All == 0 {
			return "the kernel's tables do not have the port"
		}
		return "the kernel's tables do not have " + s.of() + s.named()
	},
	NotReady: func(s *sentence) string {
		return s.of() + s.verb(" is", " are") + " not ready" + s.refusal() + s.named()
	},
	Drained: func(s *sentence) string {
		return s.of() + s.verb(" has", " have") + " weight 0" + s.refusal() + s.named()
	},
	Fallback: func(s *sentence) string {
		if s.IsProblem() {
			return "no endpoint that may be used is ready, so that terminating ones serve" + s.named()
		}
		return "no endpoint of " + s.node() + " is ready, so that terminating ones serve where the policy is Local" +
			s.named()
	},
	PublishedEarly: func(s *sentence) string {
		return s.of() + s.verb(" gets", " get") + " connections although " + s.verb("its pod is", "their pods are") +
			" not ready" + s.named()
	},
	kindSome: func(s *sentence) string { return s.of() + s.verb(" does", " do") + " not have the port" + s.named() },
	NoPort: func(s *sentence) string {
		return fmt.Sprintf("none of its %d %sendpoints has the port %s; their EndpointSlices have %s",
			s.Hit, s.family(), s.Message, cmp.Or(strings.Join(s.Names, ", "), "none at all"))
	},
	LocalPolicy: func(s *sentence) string {
		who := "clients outside the cluster get only the endpoints of the node that they connect to"
		if s.Field == FieldInternalLocal {
			who = "clients on " + s.node() + " get only the endpoints of their node"
		}
		return fmt.Sprintf("%s: %d of %d", who, s.Hit, s.All)
	},
	NoneLocal: func(s *sentence) string {
		who := "connections from outside the cluster to " + s.node() + " are dropped"
		if s.Field == FieldInternalLocal {
			who = "connections of clients on " + s.node() + " are dropped"
		}
		if s.All == 1 {
			return who + ": the only endpoint that serves is on another node"
		}
		return fmt.Sprintf("%s: all %d endpoints that serve are on other nodes", who, s.All)
	},
	model.ReasonOtherZones.String(): func(s *sentence) string { return s.hints("zones") },
	model.ReasonOtherNodes.String(): func(s *sentence) string { return s.hints("nodes") },
	SourceRanges: func(s *sentence) string {
		who := "only " + some(s.Names) + " may"
		if len(s.Names) == 0 {
			who = "no client of " + strings.Join(s.Families, " and ") + " may"
		}
		return who + " connect to " + some(s.Frontends) + ", others are dropped"
	},
	Affinity: func(s *sentence) string {
		return fmt.Sprintf("each client keeps its endpoint for %s after its last new connection",
			time.Duration(s.Seconds)*time.Second)
	},
	model.SchedulerSourceHash.String(): byAddress,
	model.SchedulerMaglev.String():     byAddress,
	model.SchedulerLeastConnections.String(): func(s *sentence) string {
		return "endpoints with fewer connections get " +
			"more new ones" + s.ports()
	},
	Weights: func(s *sentence) string {
		return fmt.Sprintf("the %d endpoints have "+
			"different weights", s.Hit)
	},
	Busy: func(s *sentence) string {
		return s.of() + s.verb(" gets", " get") + " no new connections for now, because others have fewer" + s.named()
	},
	Refuses: func(s *sentence) string {
		return fmt.Sprintf("%s %s with a reset%s: no program listens on port %d there, or a network policy rejects%s",
			s.of(), s.verb("answers", "answer"), s.count(", once within the observation", ", %d times within the observation"),
			s.Number, s.named())
	},
	Silent: func(s *sentence) string {
		return fmt.Sprintf("%s %s not answer%s: the pod or its node is gone, or a network policy or firewall drops%s",
			s.of(), s.verb("does", "do"), s.count(", 1 connection waiting", ", %d connections waiting"), s.named())
	},
	kindUDP: func(s *sentence) string {
		return fmt.Sprintf("%s %s not answer%s: no program listens on port %d there, something drops, or the protocol has "+
			"no answers%s",
			s.of(), s.verb("does", "do"), s.count(", 1 connection", ", %d connections"), s.Number, s.named())
	},
	Stale: func(s *sentence) string {
		return "open connections" + s.count(", 1,", ", %d,") + " to endpoints that get no new ones any more" + s.named()
	},
	kindShare: func(*sentence) string {
		return "its namespace has more than its share of the connection counters: connections are not counted for ten " +
			"minutes, nor resets observed"
	},
	nodestatus.ReasonNotCounted: func(s *sentence) string {
		return "the counters of " + s.Family +
			" connections are full: those of further pairs of address and endpoint are not counted, nor resets observed"
	},
	model.ProblemConflict: func(s *sentence) string {
		verb := " is"
		if s.Number > 1 {
			verb = " are"
		}
		return nodestatus.JoinFirst(s.Names, s.Number, len(s.Names)) + verb + " held by Service " + s.Message
	},
	nodestatus.ReasonUncertain: func(*sentence) string {
		return "a change failed; this is the state before it, until the kernel has been read again"
	},
	nodestatus.ReasonUnread: func(s *sentence) string { return "the kernel cannot be read: " + s.Message },
	SyncFails: func(s *sentence) string {
		return fmt.Sprintf("changes have not reached the kernel for %s: %s", s.ago(), s.Message)
	},
	Overdue: func(s *sentence) string { return "changes have been waiting for the kernel for " + s.ago() },
	NothingYet: func(s *sentence) string {
		text := "nothing is programmed yet, " + s.ago() + " after the start"
		if len(s.Names) > 0 {
			text += ": no list yet of " + strings.Join(s.Names, ", ")
		}
		return text
	},
	PortsRefused: func(s *sentence) string { return "the kernel refuses " + nodestatus.Plural(s.Number, "Service port") },
	TableState: func(s *sentence) string {
		return "the table of " + s.Family + " " + map[string]string{
			nodestatus.TableForeign: "belongs to another program, so that nothing can be changed",
			nodestatus.TableDormant: "is disabled by another program, so that no packet reaches it",
			nodestatus.TableMissing: "is missing",
			nodestatus.TableOpen:    "has no owner, so that other programs can change it",
		}[s.Message]
	},
	NotFollowing: func(s *sentence) string {
		return fmt.Sprintf("the API server cannot be followed for %s (%s): %s", s.ago(), strings.Join(s.Names, ", "),
			s.Message)
	},
	FastPathOff: func(s *sentence) string { return "the fast path is off: " + s.Message },
	Repaired: func(s *sentence) string {
		return fmt.Sprintf("tables that another program changed were repaired, last %s ago; %s since the start", s.ago(),
			nodestatus.Plural(s.Number, "time"))
	},
	Unusable: func(s *sentence) string {
		return nodestatus.Plural(s.Number, "object") + " cannot be used, wholly or in part"
	},
	Conflicts: func(s *sentence) string {
		return fmt.Sprintf("other Services hold %d of the addresses and ports of Services", s.Number)
	},
	Logged: func(s *sentence) string { return fmt.Sprintf("logged %s ago: %s", s.ago(), s.Message) },
}

// maxNamed is how many addresses a sentence names.
const maxNamed = 4

// of returns "2 of 3 endpoints".
func (s *sentence) of() string {
	if s.All == 1 {
		return "the only endpoint"
	}
	return fmt.Sprintf("%d of %d endpoints", s.Hit, s.All)
}

// verb returns the form for the endpoints concerned.
func (s *sentence) verb(one, many string) string {
	if s.All == 1 || s.Hit == 1 {
		return one
	}
	return many
}

// named returns the endpoints concerned, after a colon.
func (s *sentence) named() string { return ": " + nodestatus.JoinFirst(s.Named, s.NamedOf, maxNamed) }

// some returns the first of a list, and how many more there are.
func some(list []string) string { return nodestatus.JoinFirst(list, len(list), maxNamed) }

// node returns the nodes concerned.
func (s *sentence) node() string {
	s.placed = true
	return s.where
}

// count returns the words for a number of connections; none for zero, if nodes differ.
func (s *sentence) count(one, many string) string {
	switch s.Count {
	case 0:
		return ""
	case 1:
		return one
	}
	return fmt.Sprintf(many, s.Count)
}

// refusal is the consequence where nothing serves.
func (s *sentence) refusal() string {
	if s.IsProblem() {
		return ", so that every connection is refused"
	}
	return ""
}

// family returns the family and a space, if only one is concerned.
func (s *sentence) family() string { return strings.TrimPrefix(s.Family+" ", " ") }

func (s *sentence) ago() string { return nodestatus.Duration(time.Duration(s.Seconds) * time.Second) }

func (s *sentence) noEndpoint() string {
	return fmt.Sprintf("no %sendpoint in any EndpointSlice, so that every %sconnection is refused: ", s.family(),
		s.family())
}

func (s *sentence) hints(kind string) string {
	return s.of() + s.verb(" gets", " get") + " no connections from " + s.node() + ", because hints assign " +
		s.verb("it", "them") +
		" to other " + kind + s.named()
}

func byAddress(s *sentence) string {
	return "each client gets the endpoint that its address leads to" + s.ports()
}

// ports names the ports of a scheduler, if it is that of the node.
func (s *sentence) ports() string {
	if s.Number == 0 {
		return ""
	}
	return ", at the " + nodestatus.Plural(s.Number, "port") + " of Services that do not name a scheduler"
}

// notObserved returns what the findings of a document do not cover.
func notObserved(d *nodestatus.Document) []string {
	const notTried = "endpoints that no client tried meanwhile (explain --probe asks)"
	list := []string{"what firewalls and other programs drop (explain shows it)"}
	switch {
	case d.ObservedSeconds == 0:
		return append(list, "whether endpoints respond (--observe)")
	case !d.Counted:
		list = append(list, "resets, since connections are not counted")
	}
	return append(list, notTried)
}

// NotObservedText returns a list of what was not observed as a line.
func NotObservedText(list []string) string { return "Not looked at: " + strings.Join(list, "; ") }

// Where returns the object with the ports concerned: "Service shop/web (http/TCP)".
func (f *Finding) Where() string {
	if len(f.Ports) == 0 {
		return f.Object
	}
	return f.Object + " (" + some(f.Ports) + ")"
}

// summary returns how many findings there are, and of what.
func (l *List) summary() string {
	problems := 0
	for i := range l.Findings {
		if l.Findings[i].IsProblem() {
			problems++
		}
	}
	notices, of := len(l.Findings)-problems, nodestatus.Plural(l.Services, "Service")
	text := fmt.Sprintf("%s: %s, %s about %s", l.Node, nodestatus.Plural(problems, "problem"),
		nodestatus.Plural(notices, "notice"), of)
	if len(l.Findings) == 0 {
		text = fmt.Sprintf("%s: nothing to report about %s: each is balanced over all its ready endpoints", l.Node, of)
	}
	if l.ObservedSeconds > 0 {
		text += fmt.Sprintf("; responses observed for %g s", l.ObservedSeconds)
	}
	return strings.TrimPrefix(text, ": ")
}

// Text returns the words for the problem of a document.
func Text(reason string, a nodestatus.Args) string {
	return (&Finding{Reason: reason, Args: a}).Sentence()
}

// Write writes the list as text, a line for each finding.
func (l *List) Write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s\n%s\n", l.summary(), NotObservedText(l.NotObserved)); err != nil ||
		len(l.Findings) == 0 {
		return err
	}
	rows := [][]string{{"SEVERITY", "OBJECT", "REASON", "FIELD", "TEXT"}}
	for i := range l.Findings {
		f := &l.Findings[i]
		rows = append(rows, []string{f.Severity, f.Where(), f.Reason, cmp.Or(f.Field, "<none>"), f.Sentence()})
	}
	return output.Print(w, rows)
}
