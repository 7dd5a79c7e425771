package explain

import (
	"fmt"
	"io"
	"strings"
	"time"

	"kube-vmap/nft/simulate"
)

// text prints the answer for people.
func (a *Answer) text(w io.Writer) error {
	var b strings.Builder
	a.head(&b)
	a.steps(&b)
	if a.Elsewhere.decides() {
		a.Elsewhere.text(&b, a.From)
		b.WriteString("\nResult, if it comes to this node unchanged:")
	} else {
		b.WriteString("\nResult:")
	}
	results(&b, a.Outcomes, a.Unseen)
	a.connections(&b)
	list(&b, "The tables are not as kube-vmap writes them:", a.Faults)
	list(&b, "Not certain, because rules of others were not understood:", a.Doubts)
	if len(a.Doubts) > 0 {
		b.WriteString("  kube-vmap explain --trace shows what a live packet meets\n")
	}
	list(&b, "From the running kube-vmap:", a.Hints)
	if a.Elsewhere != nil && !a.Elsewhere.decides() {
		a.Elsewhere.text(&b, a.From)
	}
	if a.Process != "answers" {
		fmt.Fprintf(&b, "\nNote: %s\n", a.Process)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

func (a *Answer) head(b *strings.Builder) {
	fmt.Fprintf(b, "%s -> %s/%s ", a.From, a.To, a.Protocol)
	switch {
	case a.Service != "" && a.Kind != "":
		fmt.Fprintf(b, "asks for %s (%s)", a.Service, a.Kind)
	case a.Service != "":
		fmt.Fprintf(b, "asks for %s", a.Service)
	default:
		b.WriteString("asks for no address and port of a Service")
	}
	if a.Interface == "" {
		b.WriteString(", sent by this node\n\n")
		return
	}
	fmt.Fprintf(b, ", in by %s\n\n", a.Interface)
}

// steps prints hook, chain and what was met, each named once.
func (a *Answer) steps(b *strings.Builder) {
	var hook, chain, who string
	width := 0
	for _, s := range a.Steps {
		width = max(width, len(chainText(s)))
	}
	for _, s := range a.Steps {
		if s.Endpoint != who {
			who, hook, chain = s.Endpoint, "", ""
			fmt.Fprintf(b, "  to %s%s:\n", who, alikeText(s.Similar))
		}
		h, c := s.Hook, chainText(s)
		if h == hook {
			h = ""
		}
		if c == chain && h == "" {
			c = ""
		}
		hook, chain = s.Hook, chainText(s)
		fmt.Fprintf(b, "  %-12s %-*s  %s\n", h, width, c, s.Text)
	}
	if len(a.Steps) == 0 {
		b.WriteString("  no rule has anything to do with it\n")
	}
}

// chainText is the chain, with its table unless that is ours.
func chainText(s simulate.Step) string {
	if strings.HasSuffix(s.Table, " kube-vmap") || s.Table == "" {
		return s.Chain
	}
	return s.Table + " " + s.Chain
}

func alikeText(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", and much the same to 1 other"
	}
	return fmt.Sprintf(", and much the same to %d others", n)
}

// mostPrinted is how many endpoints are printed one by one.
const mostPrinted = 10

// results prints outcomes, each with its probability if there are several, and what was
// not looked at.
func results(b *strings.Builder, list []Outcome, left *Unseen) {
	if len(list) > 1 {
		b.WriteString("\n")
	}
	more := 0 // endpoints; of several outcomes, nobody knows of which
	if left != nil && len(list) == 1 {
		more = left.Endpoints
	}
	for _, o := range list {
		if len(list) > 1 {
			fmt.Fprintf(b, "  %.4g%%:", o.Probability*100)
		}
		b.WriteString(" " + sentence(o, more) + "\n")
		for i, e := range o.Endpoints {
			if i == mostPrinted {
				break
			}
			fmt.Fprintf(b, "    %s\n", endpointLine(e))
		}
		if rest := len(o.Endpoints) - mostPrinted + more; rest > 0 && len(o.Endpoints) >= mostPrinted {
			fmt.Fprintf(b, "    and %d more\n", rest)
		}
	}
	left.text(b)
}

// text says what was not looked at, and what is taken for granted of it.
func (u *Unseen) text(b *strings.Builder) {
	if u == nil {
		return
	}
	fmt.Fprintf(b, "  Not looked at, because there is so much to pick from: %.4g%%", u.Probability*100)
	if u.Endpoints > 0 {
		fmt.Fprintf(b, ", with %d more endpoints", u.Endpoints)
	}
	if u.OthersPick {
		b.WriteString(". Rules of other programs pick, too, so that may end in another way\n")
		return
	}
	b.WriteString(", taken to be like the others\n")
}

func endpointLine(e Endpoint) string {
	where := fmt.Sprintf("%s:%d", e.Address, e.Port)
	if strings.Contains(e.Address, ":") {
		where = fmt.Sprintf("[%s]:%d", e.Address, e.Port)
	}
	line := fmt.Sprintf("%-24s %5.4g%%, sees %s", where, e.Probability*100, e.Sees)
	if e.Node {
		line += ", on this node itself"
	}
	return line
}

// sentence is an outcome in a sentence; more are endpoints besides those it has.
func sentence(o Outcome, more int) string {
	switch o.verdict {
	case simulate.VerdictDelivered:
		return "goes to " + count(len(o.Endpoints)+more) + "; " + masqueradeText(o)
	case simulate.VerdictNotService:
		if o.How != "" {
			return "is not translated: " + o.How
		}
		if len(o.Endpoints) > 0 && o.Endpoints[0].Node {
			return "is not translated, and stays on this node: whether a program listens there is not for the rules to say"
		}
		return "is not translated, and goes on to the address that it asks for"
	case simulate.VerdictRefused:
		return "refused with " + o.How + byText(o)
	case simulate.VerdictDropped:
		return "dropped" + byText(o)
	case simulate.VerdictUnreachable:
		return "does not get there: " + o.How
	}
	return o.How
}

func masqueradeText(o Outcome) string {
	text := "the client keeps its address"
	if o.Masquerade {
		text = "this node is seen as the client"
	}
	if o.Why != "" {
		text += " (" + o.Why + ")"
	}
	return text
}

func count(n int) string {
	if n == 1 {
		return "one endpoint"
	}
	return fmt.Sprintf("one of %d endpoints", n)
}

// byText says who decided so, and what it means if that was ours.
func byText(o Outcome) string {
	switch {
	case o.By == nil:
		return ""
	case o.Because != "":
		return ": " + o.Because
	case o.By.Rule == 0:
		return fmt.Sprintf(" by table %s, chain %s, whose policy it is%s", o.By.Table, o.By.Chain, toSeeIt(o.By))
	}
	return fmt.Sprintf(" by table %s, chain %s, rule handle %d%s", o.By.Table, o.By.Chain, o.By.Rule, toSeeIt(o.By))
}

// toSeeIt is what shows a chain as its author wrote it; our own is told in words.
func toSeeIt(by *simulate.RuleRef) string {
	return fmt.Sprintf("\n    to see it: nft -a list chain %s %s", by.Table, by.Chain)
}

// connections prints what is under way, and what is remembered.
func (a *Answer) connections(b *strings.Builder) {
	if a.Affinity != nil {
		fmt.Fprintf(b, "\nThe client is remembered: it has %s for %s more, if it does not come back before.\n",
			a.Affinity.Endpoint, seconds(a.Affinity.ExpiresSeconds))
	}
	if c := a.Connection; c != nil {
		fmt.Fprintf(b, "\nThe packet belongs to a connection that is under way, which no rule of nat sees again:\n  %s\n", c.text())
		b.WriteString("One that began a connection:")
		results(b, a.Otherwise, a.OtherwiseUnseen)
	}
	if len(a.Connections) == 0 {
		return
	}
	b.WriteString("\nConnections from there that are under way stay where they are:\n")
	for i, c := range a.Connections {
		if i == mostPrinted {
			fmt.Fprintf(b, "  and %d more\n", len(a.Connections)-mostPrinted)
			break
		}
		fmt.Fprintf(b, "  %s\n", c.text())
	}
}

func (c Connection) text() string {
	text := fmt.Sprintf("from port %d to %s, which sees %s; ends in %s if nothing comes", c.FromPort, c.Endpoint, c.Sees, seconds(c.ExpiresSeconds))
	if c.State != "" {
		text += ", " + c.State
	}
	if c.Since != nil {
		text += ", since " + c.Since.Format(time.DateTime)
	}
	if c.Stale {
		text += "; no new connection would go there"
	}
	return text
}

func seconds(n int) string { return (time.Duration(n) * time.Second).String() }

func list(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, l := range lines {
		fmt.Fprintf(b, "  %s\n", l)
	}
}
