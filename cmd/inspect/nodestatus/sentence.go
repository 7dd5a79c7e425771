package nodestatus

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kube-vmap/model"
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

// Sentence returns the finding in words. They are made here only, from the sentence of the
// reason (reasons.go) and the arguments, and nothing else reads them.
func (f *Finding) Sentence() string { return f.SentenceAt("this node") }

// SentenceAt returns the words of [Finding.Sentence] with another name for the node.
func (f *Finding) SentenceAt(node string) string {
	words, _ := f.SentenceOf(node)
	return words
}

// SentenceOf returns the words about a finding of nodes, and whether they name these. For an
// older program, or a reason of a newer one, they are its text, as if arguments are missing.
func (f *Finding) SentenceOf(nodes string) (words string, placed bool) {
	s := &sentence{Finding: f, where: nodes}
	name := f.Reason
	if name == ReasonNode {
		name = f.Kind
	}
	forms := reasonOf(name).sentences
	form := forms[0]
	for i := 1; i+1 < len(forms); i += 2 {
		if forms[i] == f.Kind || forms[i] == f.Severity || forms[i] == f.Field {
			form = forms[i+1]
		}
	}
	a := f.Args
	a.Details = nil
	words, complete := s.fill(form)
	if form == "" || f.Text != "" && (!complete || a.IsZero()) {
		words, s.placed = cmp.Or(f.Text, f.Message), false
	}
	return strings.Join(append([]string{words}, f.Details...), "; "), s.placed
}

// A sentence has what the words about a finding are made of.
type sentence struct {
	*Finding
	where  string // the nodes
	placed bool   // the words name them
	many   bool   // the last number is not 1
}

// MaxNamed is how many endpoints a sentence names.
const MaxNamed = 4

var blanks = regexp.MustCompile(`\[[^]]*\]|\{[^}]*\}`)

// fill fills the blanks of a sentence, and reports whether there is an argument for each: {word} is
// one, {one|many} depends on the number before it, and [form||form] is the first form whose blanks
// can be filled, or nothing.
func (s *sentence) fill(form string) (words string, complete bool) {
	complete = true
	return blanks.ReplaceAllStringFunc(form, func(blank string) string {
		inner := blank[1 : len(blank)-1]
		if blank[0] == '{' {
			word := s.word(inner)
			complete = complete && word != ""
			return word
		}
		for _, form := range strings.Split(inner, "||") {
			if words, ok := s.fill(form); ok {
				return words
			}
		}
		return ""
	}), complete
}

// word returns what a blank stands for; empty if there is no such argument.
func (s *sentence) word(blank string) string {
	if one, many, ok := strings.Cut(blank, "|"); ok {
		return map[bool]string{true: many, false: one}[s.many]
	}
	name, noun, _ := strings.Cut(blank, " ")
	numbers := map[string]int{"hit": s.Hit, "all": s.All, "count": s.Count, "clients": s.Clients, "number": s.Number}
	if n, ok := numbers[name]; ok {
		s.many = n != 1
		return only(n != 0, cmp.Or(only(noun != "", Plural(n, noun)), strconv.Itoa(n)))
	}
	switch name {
	case "of":
		s.many = s.All != 1 && s.Hit != 1
		return cmp.Or(only(s.All == 1, "the only endpoint"), only(s.All > 0, s.word("part")+" endpoints"))
	case "part":
		return only(s.All > 0, fmt.Sprintf("%d of %d", s.Hit, s.All))
	case "only":
		return only(s.All == 1, "the only")
	case "times":
		return cmp.Or(only(s.Count == 1, "once"), only(s.Count > 0, fmt.Sprint(s.Count, " times")))
	case "named":
		return JoinFirst(s.Named, s.NamedOf, MaxNamed)
	case "pods": // the endpoints if they have other names than their addresses by now
		return only(!slices.Equal(s.Named, s.Endpoints), s.word("named"))
	case "node":
		s.placed = true
		return s.where
	case "family":
		return s.Family
	case "message":
		return s.Message
	case "names":
		return strings.Join(s.Names, ", ")
	case "some":
		return some(s.Names)
	case "matches":
		s.many = s.Number > 1
		return JoinFirst(s.Names, s.Number, len(s.Names))
	case "frontends":
		return some(s.Frontends)
	case "families":
		return strings.Join(s.Families, " and ")
	case "refused":
		return only(s.IsProblem(), name)
	case "retried":
		return only(s.Kind == KindRetried, name)
	case "others":
		return cmp.Or(only(s.Kind == model.ReasonOtherZones.String(), "zones"), "nodes")
	case "avoided":
		return map[string]string{
			KindAvoided: "new connections avoid it", LastEndpoint: "not avoided, as the last endpoint",
			MaxPercent: "not avoided, as max-percent are",
		}[s.Kind]
	case "endpoint":
		return s.word("names") + strings.TrimSuffix(" on node "+s.Message, " on node ")
	case "since":
		return only(!s.Since.IsZero(), s.Since.UTC().Format(time.RFC3339))
	case "ago":
		return Duration(time.Duration(s.Seconds) * time.Second)
	case "timeout":
		return (time.Duration(s.Seconds) * time.Second).String()
	case "unanswered": // to how many connections and probes there is no reply, unless nodes differ
		connections, _ := s.fill("[to {count connection} of {clients client}||to {count connection}]")
		probes, _ := s.fill("[to {number probe}]")
		return connections + only(connections != "" && probes != "", " and ") + probes
	case "table":
		return tableStates[s.Message]
	}
	return ""
}

// only returns a text if it applies.
func only(applies bool, text string) string {
	if !applies {
		return ""
	}
	return text
}

var tableStates = map[string]string{
	TableForeign: "belongs to another program, so nothing can be changed",
	TableDormant: "is disabled by another program, so no packet reaches it",
	TableMissing: "is missing",
	TableOpen:    "has no owner, so other programs can change it",
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
