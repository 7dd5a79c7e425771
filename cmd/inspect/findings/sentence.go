package findings

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
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
	if text := sentences[s.key()]; text != "" && (s.Text == "" || !a.IsZero()) {
		words = os.Expand(text, s.word)
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

// word returns what replaces a name in a sentence; see [sentences].
func (s *sentence) word(name string) string {
	switch kind, forms := name[0], name[1:]; kind {
	case '#':
		if s.Count == 0 { // not known, or nodes differ
			return ""
		}
		return choose(forms, s.Count == 1, s.Count)
	case '!':
		return choose(forms, s.IsProblem(), 0)
	case '*':
		return nodestatus.Plural(s.Number, forms)
	}
	if strings.Contains(name, "|") {
		return choose(name, s.All == 1 || s.Hit == 1, s.All)
	}
	switch name {
	case "of":
		return choose("the only endpoint|"+strconv.Itoa(s.Hit)+" of %d endpoints", s.All == 1, s.All)
	case "named":
		return ": " + nodestatus.JoinFirst(s.Named, s.NamedOf, maxNamed)
	case "pods": // if they have other names than their addresses by now
		if slices.Equal(s.Named, s.Endpoints) {
			return ""
		}
		return s.word("named")
	case "missing":
		if s.All == 0 {
			return "the port"
		}
		return s.word("of") + s.word("named")
	case "node":
		s.placed = true
		return s.where
	case "family": // if only one is concerned
		return strings.TrimPrefix(s.Family+" ", " ")
	case "refused":
		return choose(", so that every "+s.word("family")+"connection is refused|", s.IsProblem(), 0)
	case "selector":
		return cmp.Or(s.Message, "matches no pod with an "+s.word("family")+"address")
	case "offered":
		return cmp.Or(strings.Join(s.Names, ", "), "none at all")
	case "clients":
		if len(s.Names) == 0 {
			return "no client of " + strings.Join(s.Families, " and ")
		}
		return "only " + some(s.Names)
	case "frontends":
		return some(s.Frontends)
	case "held":
		return nodestatus.JoinFirst(s.Names, s.Number, len(s.Names)) + choose(" is| are", s.Number <= 1, 0)
	case "ports": // of a scheduler, if it is that of the node
		if s.Number == 0 {
			return ""
		}
		return ", at the " + nodestatus.Plural(s.Number, "port") + " of Services that do not name a scheduler"
	case "unlisted":
		if len(s.Names) == 0 {
			return ""
		}
		return ": no list yet of " + strings.Join(s.Names, ", ")
	case "on": // which node
		return strings.TrimSuffix(" on node "+s.Message, " on node ")
	case "unanswered":
		return s.unanswered()
	case "waiting": // clients, unless nodes differ
		if s.Clients == 0 {
			return "clients get"
		}
		return nodestatus.Plural(s.Clients, "client") + choose(" gets| get", s.Clients == 1, 0)
	case "since":
		return s.Since.UTC().Format(time.RFC3339)
	case "names":
		return strings.Join(s.Names, ", ")
	case "state":
		return tableStates[s.Message]
	case "hit":
		return strconv.Itoa(s.Hit)
	case "all":
		return strconv.Itoa(s.All)
	case "number":
		return strconv.Itoa(s.Number)
	case "seconds":
		return (time.Duration(s.Seconds) * time.Second).String()
	case "ago":
		return nodestatus.Duration(time.Duration(s.Seconds) * time.Second)
	}
	return s.Message
}

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

// choose returns the first of two forms, or the second one with a number.
func choose(forms string, first bool, n int) string {
	one, many, _ := strings.Cut(forms, "|")
	if first {
		return one
	}
	return strings.ReplaceAll(many, "%d", strconv.Itoa(n))
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

// NotObservedText returns a list of what was not observed as a line.
func NotObservedText(list []string) string { return "Not looked at: " + strings.Join(list, "; ") }

// Where returns the object with the ports concerned: "Service shop/web (http/TCP)".
func (f *Finding) Where() string {
	if len(f.Ports) == 0 {
		return f.Object
	}
	return f.Object + " (" + some(f.Ports) + ")"
}

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
