package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
)

// Sentence returns the finding in words. They are made here only, from the text of the
// reason (reasons.go) and the arguments, and nothing else reads them.
func (f *Finding) Sentence() string { return f.SentenceAt("this node") }

// SentenceAt returns the words of [Finding.Sentence] with another name for the node.
func (f *Finding) SentenceAt(node string) string {
	return (&sentence{Finding: f, where: node}).String()
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
	if say := sentences[s.key()]; say != nil && (s.Text == "" || !a.IsZero()) {
		words = say(s)
	}
	return strings.Join(append([]string{words}, s.Details...), "; ")
}

func (s *sentence) key() string {
	switch {
	case s.Field == FieldInternalLocal && (s.Reason == LocalPolicy || s.Reason == NoneLocal):
		return s.Reason + "Internal"
	case s.Reason == Fallback && !s.IsProblem():
		return kindFallbackLocal
	}
	return cmp.Or(s.Kind, s.Reason)
}

const maxNamed = 4

// pick returns one form or the other by the number of endpoints.
func (s *sentence) pick(one, many string) string {
	if s.All == 1 || s.Hit == 1 {
		return one
	}
	return many
}

// counted returns one form or the other by the number of connections; nothing if it is not known, or
// nodes differ.
func (s *sentence) counted(one, many string) string {
	switch s.Count {
	case 0:
		return ""
	case 1:
		return one
	}
	return fmt.Sprintf(many, s.Count)
}

// of returns which part of the endpoints is concerned.
func (s *sentence) of() string {
	if s.All == 1 {
		return "the only endpoint"
	}
	return fmt.Sprintf("%d of %d endpoints", s.Hit, s.All)
}

func (s *sentence) named() string { return ": " + nodestatus.JoinFirst(s.Named, s.NamedOf, maxNamed) }

// pods returns the endpoints if they have other names than their addresses by now.
func (s *sentence) pods() string {
	if slices.Equal(s.Named, s.Endpoints) {
		return ""
	}
	return s.named()
}

func (s *sentence) node() string {
	s.placed = true
	return s.where
}

// family returns the IP family, if only one is concerned.
func (s *sentence) family() string { return strings.TrimPrefix(s.Family+" ", " ") }

func (s *sentence) refused() string {
	if !s.IsProblem() {
		return ""
	}
	return ", so that every " + s.family() + "connection is refused"
}

func (s *sentence) noEndpoint() string {
	return fmt.Sprintf("no %sendpoint in any EndpointSlice, so that every %[1]sconnection is refused: ", s.family())
}

func (s *sentence) elsewhere() string {
	return s.pick("the only endpoint that serves is on another node",
		fmt.Sprintf("all %d endpoints that serve are on other nodes", s.All))
}

func (s *sentence) hints(others string) string {
	return s.of() + s.pick(" gets", " get") + " no connections from " + s.node() + ", because hints assign " +
		s.pick("it", "them") + " to other " + others + s.named()
}

// ports returns at how many ports endpoints are chosen by the scheduler of the node.
func (s *sentence) ports() string {
	if s.Number == 0 {
		return ""
	}
	return ", at the " + nodestatus.Plural(s.Number, "port") + " of Services that do not name a scheduler"
}

func (s *sentence) endpoint() string {
	return strings.Join(s.Names, ", ") + strings.TrimSuffix(" on node "+s.Message, " on node ")
}

func (s *sentence) endpointSince() string {
	return "endpoint " + s.endpoint() + " since " + s.since() + s.pods()
}

func (s *sentence) since() string { return s.Since.UTC().Format(time.RFC3339) }

func (s *sentence) ago() string { return nodestatus.Duration(time.Duration(s.Seconds) * time.Second) }

// unanswered returns to how many connections and probes there is no reply, unless nodes differ.
func (s *sentence) unanswered() string {
	var to []string
	if s.Count > 0 {
		text := "to " + nodestatus.Plural(s.Count, "connection")
		if s.Clients > 0 {
			text += " of " + nodestatus.Plural(s.Clients, "client")
		}
		to = append(to, text)
	}
	if s.Number > 0 {
		to = append(to, "to "+nodestatus.Plural(s.Number, "probe"))
	}
	return strings.TrimSuffix(" "+strings.Join(to, " and "), " ")
}

func some(list []string) string { return nodestatus.JoinFirst(list, len(list), maxNamed) }

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

// Where returns the object with the ports concerned: "Service shop/web (http/TCP)".
func (f *Finding) Where() string {
	if len(f.Ports) == 0 {
		return f.Object
	}
	return f.Object + " (" + some(f.Ports) + ")"
}

// Text returns the words for the problem of a document.
func Text(reason string, a nodestatus.Args) string {
	return (&Finding{Reason: reason, Args: a}).Sentence()
}
