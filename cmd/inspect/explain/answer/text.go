package answer

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate/path"
)

// Text returns the answer for people: the verdict, why, and then the path.
func (a *Answer) Text() string {
	var b strings.Builder
	a.head(&b)
	result := "\nResult:"
	if e := a.Elsewhere; e != nil {
		e.text(&b, a)
		if e.Pod {
			result = "\nResult, if it arrives here unchanged:"
		}
	}
	b.WriteString(result)
	a.results(&b, a.Outcomes, a.Unseen)
	replies(&b, a, a.Outcomes)
	if r := a.Count(); r.All > 0 {
		fmt.Fprintf(&b, "  Observed: %s%s\n", r.Text(), ProbeHint(r, a.Protocol))
	}
	a.connections(&b)
	List(&b, "The tables are not as kube-vmap writes them:", a.Faults)
	List(&b, "Not certain:", a.Doubts)
	List(&b, "Not certain, because rules of iptables-legacy were not followed (iptables-legacy-save, "+
		"ip6tables-legacy-save):", a.NotFollowed)
	List(&b, "From the running kube-vmap:", a.Hints)
	if a.Process != "answers" {
		fmt.Fprintf(&b, "\nNote: %s\n", a.Process)
	}
	b.WriteString("\nPath:\n")
	a.steps(&b)
	return output.CleanText(b.String())
}

func (a *Answer) head(b *strings.Builder) {
	how := "sent by " + a.here()
	if a.Interface != "" {
		how = "in by " + a.Interface
	}
	what := "no address and port of a Service"
	if a.Service != "" {
		what = a.Service + inParentheses(a.Kind)
	}
	verdict := ArrivalText(a.Arrives)
	if r := a.Count(); a.Arrives == Always && r.Answers() != Always && r.All > 0 {
		verdict = r.Text()
	}
	fmt.Fprintf(b, "%s -> %s/%s, %s, %s: %s\n", a.From, a.To, a.Protocol, what, how, verdict)
}

// steps prints hook, chain and match of each step, without repetitions.
func (a *Answer) steps(b *strings.Builder) {
	var hook, chain, who string
	width, back := 0, false
	for _, s := range a.Steps {
		width = max(width, len(chainText(s)))
	}
	for _, s := range a.Steps {
		if s.Endpoint != who {
			who, hook, chain, back = s.Endpoint, "", "", false
			fmt.Fprintf(b, "  to %s%s:\n", who, others(", and much the same to ", s.Similar))
		}
		if s.Back && !back {
			back, hook, chain = true, "", ""
			b.WriteString("  back, the reply:\n")
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
		b.WriteString("  no rule matches\n")
	}
}

// chainText returns the chain, with its table unless that is ours.
func chainText(s path.Step) string {
	if strings.HasSuffix(s.Table, " kube-vmap") || s.Table == "" {
		return s.Chain
	}
	return s.Table + " " + s.Chain
}

// others returns how many others there are, after a text; nothing for none.
func others(before string, n int) string {
	if n == 0 {
		return ""
	}
	return before + nodestatus.Plural(n, "other")
}

const maxPrinted = 10

// results prints outcomes, each with its probability if there are several, and what was
// not explored.
func (a *Answer) results(b *strings.Builder, list []path.Outcome, left path.Unexplored) {
	if len(list) > 1 {
		b.WriteString("\n")
	}
	more := 0 // endpoints; with several outcomes, it is not known of which
	if len(list) == 1 {
		more = left.Endpoints
	}
	for _, o := range list {
		if len(list) > 1 {
			fmt.Fprintf(b, "  %.4g%%:", o.Probability*100)
		}
		b.WriteString(" " + a.sentence(&o, more) + "\n")
		for _, e := range o.Endpoints[:min(len(o.Endpoints), maxPrinted)] {
			fmt.Fprintf(b, "    %s\n", endpointLine(&e, a.here()))
		}
		if rest := len(o.Endpoints) - maxPrinted + more; rest > 0 && len(o.Endpoints) >= maxPrinted {
			fmt.Fprintf(b, "    and %d more\n", rest)
		}
	}
	unexplored(b, left)
}

// unexplored prints what was not explored, and what is assumed of it.
func unexplored(b *strings.Builder, u path.Unexplored) {
	if u == (path.Unexplored{}) {
		return
	}
	fmt.Fprintf(b, "  Not explored, because there are too many choices: %.4g%%", u.Probability*100)
	if u.Endpoints > 0 {
		fmt.Fprintf(b, ", with up to %d more endpoints", u.Endpoints)
	}
	if u.OthersPick {
		b.WriteString(". Rules of other programs choose, too, so the result may differ\n")
		return
	}
	b.WriteString(", assumed to be like the others\n")
}

func endpointLine(e *path.Endpoint, node string) string {
	line := fmt.Sprintf("%-24s %5.4g%%, sees %s", e.At(), e.Probability*100, e.Sees)
	if e.Node {
		line += ", on " + node + " itself"
	}
	line += Egress(e)
	if e.Response != "" {
		line += ", " + e.Response
	}
	return line
}

// Egress returns by which interface the packet leaves the node: ", out by eth0 to 192.0.2.1"; empty if
// that is not known.
func Egress(e *path.Endpoint) string {
	if e.Out == "" {
		return ""
	}
	if !e.NextHop.IsValid() {
		return ", out by " + e.Out
	}
	return ", out by " + e.Out + " to " + e.NextHop.String()
}

// Sentence returns an outcome of the answer in words.
func (a *Answer) Sentence(o *path.Outcome) string { return a.sentence(o, 0) }

func (a *Answer) sentence(o *path.Outcome, more int) string {
	switch o.Verdict {
	case path.VerdictDelivered:
		return "goes to " + count(len(o.Endpoints)+more) + "; " + a.sourceText(o)
	case path.VerdictNotService:
		if len(o.Endpoints) > 0 && o.Endpoints[0].Node {
			return "is not translated, and stays on " + a.here() + ": the rules do not show whether a program listens there"
		}
		return "is not translated, and goes on to its destination"
	case path.VerdictRefused:
		return "rejected with " + o.How + byText(o.By, o.Because) + inParentheses(o.Field)
	case path.VerdictDropped:
		return "dropped" + byText(o.By, o.Because) + inParentheses(o.Field)
	case path.VerdictUnreachable:
		return "does not arrive: " + o.How
	}
	return o.How
}

func (a *Answer) sourceText(o *path.Outcome) string {
	text := "the client keeps its address"
	switch {
	case o.Masquerade:
		text = a.here() + " is seen as the client"
	case len(o.Endpoints) > 0 && o.Endpoints[0].Sees != a.client():
		text = o.Endpoints[0].Sees.String() + " is seen as the client"
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

var reasonTexts = map[string]string{
	path.ReasonNoEndpoint:   "the Service has no endpoint that is ready and not drained",
	path.ReasonHeld:         "the Service has no endpoint that serves, and holds connections until there is one",
	path.ReasonSourceRanges: "the client is in none of the source ranges of the Service",
	path.ReasonDenied:       "the client is in a denied source range of the Service",
	path.ReasonNoPort:       "the address is a Service's, which has no such port",
	path.ReasonTranslated: "another program has translated the destination to this ClusterIP, " +
		"and the kernel translates a connection only once",
	path.ReasonNoService: "no Service has this address, which is in a range of ClusterIPs",
	path.ReasonInvalid:   "connection tracking cannot place the packet",
	path.ReasonFault:     "the packet comes here only because ",
}

// because returns a reason in words, with the fault that it may be about.
func (a *Answer) because(reason, fault string) string {
	if reason == path.ReasonNoLocalEndpoint {
		return "the Service has endpoints, but its policy is Local and none of them is on " + a.here()
	}
	return reasonTexts[reason] + fault
}

// byText returns the rule that decided, or the reason if it is one of ours, and the command that lists
// a chain of another program.
func byText(by path.RuleRef, because string) string {
	switch {
	case by == path.RuleRef{}:
		return ""
	case because != "":
		return ": " + because
	}
	rule := ", whose policy it is"
	if by.Rule != 0 {
		rule = strings.TrimSuffix(fmt.Sprintf(", rule handle %d: %s", by.Rule, by.Text), ": ")
	}
	return fmt.Sprintf(" by table %[1]s, chain %[2]s%[3]s\n    to list it: nft -a list chain %[1]s %[2]s", by.Table,
		by.Chain, rule)
}

func inParentheses(field string) string {
	if field == "" {
		return ""
	}
	return " (" + field + ")"
}

func (a *Answer) connections(b *strings.Builder) {
	if a.Affinity != nil {
		fmt.Fprintf(b, "\nSession affinity (spec.sessionAffinity: ClientIP): the client keeps %s for %s more, or longer "+
			"if it connects again.\n",
			a.Affinity.Endpoint, seconds(a.Affinity.ExpiresSeconds))
	}
	if c := a.Connection; c != nil {
		b.WriteString("\nThe packet belongs to an open connection, which chains of type nat do not see again:\n")
		c.text(b)
		b.WriteString("A new connection:")
		a.results(b, a.Otherwise, a.OtherwiseUnseen)
	}
	a.otherConnections(b)
}

// otherConnections prints open connections, first those whose endpoint no new one gets.
func (a *Answer) otherConnections(b *strings.Builder) {
	if len(a.Connections) == 0 {
		return
	}
	b.WriteString("\nOpen connections of this client stay where they are:\n")
	printed := 0
	for _, stale := range []bool{true, false} {
		for _, c := range a.Connections {
			if c.Stale != stale {
				continue
			}
			if printed++; printed <= maxPrinted {
				c.text(b)
			}
		}
	}
	if printed > maxPrinted {
		fmt.Fprintf(b, "  and %d more\n", printed-maxPrinted)
	}
}

func seconds(n int) string { return (time.Duration(n) * time.Second).String() }

// List prints a title and indented lines; nothing without lines.
func List(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, l := range lines {
		fmt.Fprintf(b, "  %s\n", Indent(l))
	}
}

// Indent indents the further lines of a text.
func Indent(text string) string { return strings.ReplaceAll(text, "\n", "\n  ") }

// text prints what the answer does not cover, and where to run the command instead.
func (e *Elsewhere) text(b *strings.Builder, a *Answer) {
	via := ""
	if e.Via != "" {
		via = ", by way of " + e.Via
	}
	if e.Pod {
		where := strings.TrimSuffix("node "+e.Node, "node ")
		fmt.Fprintf(b, "\n%s is a pod of %s%s, whose rules apply first. Ask\n"+
			"that node, by kubectl on your own machine or there:\n",
			a.From, cmp.Or(where, "another node"), via)
	} else {
		fmt.Fprintf(b, "\nNote: %s is not on %s%s. If it is a pod or a node of the cluster, the rules of\n"+
			"its own node apply first: ask that node. If it is outside the cluster, ask the node that it connects to:\n",
			a.From, a.here(), via)
	}
	for _, command := range e.Ask {
		fmt.Fprintf(b, "  %s\n", command)
	}
}

func (c *Connection) text(b *strings.Builder) {
	fmt.Fprintf(b, "  from port %d to %s, which sees %s; ", c.FromPort, c.Endpoint, c.Sees)
	if c.FastPath {
		b.WriteString("on the fast path: its packets pass no rules, except fragments and those that end it")
	} else {
		fmt.Fprintf(b, "expires in %s without traffic", seconds(c.ExpiresSeconds))
	}
	if c.State != "" {
		b.WriteString(", " + c.State)
	}
	if c.Since != nil {
		b.WriteString(", since " + c.Since.Format(time.DateTime))
	}
	if c.Stale {
		b.WriteString("\n    no new connection would go there")
		if c.Because != "" {
			b.WriteString(": " + c.Because + inParentheses(c.Field))
		}
	}
	b.WriteString("\n")
}

// becauseField returns the field of the Service because of which a rule rejects or drops packets to
// a kind of address.
func becauseField(reason, kind string) string {
	switch {
	case reason == path.ReasonSourceRanges:
		return nodestatus.FieldSourceRanges
	case reason == path.ReasonDenied:
		return nodestatus.FieldDenied
	case reason != path.ReasonNoLocalEndpoint || kind == "":
		return ""
	case kind == model.KindClusterIP.String():
		return nodestatus.FieldInternalLocal
	}
	return nodestatus.FieldExternalLocal
}
