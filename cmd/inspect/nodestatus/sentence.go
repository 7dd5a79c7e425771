package nodestatus

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Finding is one cause for which connections to a Service are not balanced over all ready
// endpoints, or fail; or a problem of another object. It is compared and merged by its values;
// [Finding.Sentence] puts it in words.
type Finding struct {
	Severity string `json:"severity"` // [SeverityProblem] or [SeverityNotice]
	// Object is "Service shop/web", "EndpointSlice shop/web-x7b2f" or "Node worker-1".
	// Namespace and Name name a Service.
	Object    string `json:"object"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Reason is one of the constants here, or the reason of a problem in the document; Kind
	// distinguishes findings with one reason and several sentences.
	Reason string `json:"reason"`
	Kind   string `json:"kind,omitempty"`
	// Field is the field that causes it, as in YAML, with its value if it has one: of the
	// object, unless it names another one. It is empty if it is not known.
	Field string `json:"field,omitempty"`
	// Ports are the Service's ports concerned, as "http/TCP", or "TCP" without a name,
	// Frontends their addresses and ports, Endpoints its endpoints'; at most 20 each.
	Ports     []string `json:"ports,omitempty"`
	Families  []string `json:"families,omitempty"`
	Frontends []string `json:"frontends,omitempty"`
	Endpoints []string `json:"endpoints,omitempty"`
	Args      `json:"args,omitzero"`
	// Text is the sentence in JSON, see [WithTexts]; or the words of an error or of an older
	// program, which has no arguments.
	Text string `json:"text"`
}

// IsProblem reports whether it is more than a notice.
func (f *Finding) IsProblem() bool { return f.Severity == SeverityProblem }

// Sentence returns the finding in words. They are made here only, from the text of the
// reason (reasons.go) and the arguments, and nothing else reads them.
func (f *Finding) Sentence() string { return f.SentenceAt("this node") }

// SentenceAt returns the words of [Finding.Sentence] with another name for the node.
func (f *Finding) SentenceAt(node string) string {
	words, _ := f.SentenceOf(node)
	return words
}

// SentenceOf returns the words about a finding of nodes, and whether they name these. For an
// older program, or a reason of a newer one, they are its text.
func (f *Finding) SentenceOf(nodes string) (words string, placed bool) {
	s := &sentence{Finding: f, where: nodes}
	words, name := cmp.Or(f.Text, f.Message), f.Reason
	if name == ReasonNode {
		name = f.Kind
	}
	a := f.Args
	a.Details = nil
	if say := reasonOf(name).say; say != nil && (f.Text == "" || !a.IsZero()) {
		words = say(s)
	}
	return strings.Join(append([]string{words}, f.Details...), "; "), s.placed
}

// A sentence has what the words about a finding are made of.
type sentence struct {
	*Finding
	where  string // the nodes
	placed bool   // the words name them
}

// MaxNamed is how many endpoints a sentence names.
const MaxNamed = 4

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

func (s *sentence) named() string { return ": " + JoinFirst(s.Named, s.NamedOf, MaxNamed) }

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
	return ", so every " + s.family() + "connection is refused"
}

func (s *sentence) noEndpoint() string {
	return fmt.Sprintf("no %sendpoint in any EndpointSlice, so every %[1]sconnection is refused: ", s.family())
}

func (s *sentence) endpoint() string {
	return strings.Join(s.Names, ", ") + strings.TrimSuffix(" on node "+s.Message, " on node ")
}

func (s *sentence) endpointSince() string {
	return "endpoint " + s.endpoint() + " since " + s.since() + s.pods()
}

func (s *sentence) since() string { return s.Since.UTC().Format(time.RFC3339) }

func (s *sentence) ago() string { return Duration(time.Duration(s.Seconds) * time.Second) }

// unanswered returns to how many connections and probes there is no reply, unless nodes differ.
func (s *sentence) unanswered() string {
	var to []string
	if s.Count > 0 {
		text := "to " + Plural(s.Count, "connection")
		if s.Clients > 0 {
			text += " of " + Plural(s.Clients, "client")
		}
		to = append(to, text)
	}
	if s.Number > 0 {
		to = append(to, "to "+Plural(s.Number, "probe"))
	}
	return strings.TrimSuffix(" "+strings.Join(to, " and "), " ")
}

func some(list []string) string { return JoinFirst(list, len(list), MaxNamed) }

// Where returns the object with the ports concerned: "Service shop/web (http/TCP)".
func (f *Finding) Where() string {
	if len(f.Ports) == 0 {
		return f.Object
	}
	return f.Object + " (" + some(f.Ports) + ")"
}

// NameEndpoints gives the endpoints that the sentence names other names. Those with the same
// name are named once; those without one only if the sentence names them now.
func (f *Finding) NameEndpoints(name func(endpoint string) string) {
	var names []string
	for _, e := range f.Endpoints {
		n := name(e)
		if n == "" && slices.Contains(f.Named, e) {
			n = e
		}
		if n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if len(f.Named) == 0 || len(names) == 0 {
		return
	}
	if f.NamedOf <= MaxNamed { // each is known, perhaps by several addresses
		f.NamedOf = 0
	}
	f.Named, f.NamedOf = names[:min(len(names), MaxNamed)], max(f.NamedOf, len(names))
}
