package explain

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
)

// Print prints the report as text, json or yaml; steps adds the rules of every node to the
// text.
func (r *Report) Print(w io.Writer, format string, steps bool) error {
	if output.IsObject(format) {
		return output.Write(w, format, r)
	}
	_, err := io.WriteString(w, r.Text(steps))
	return err
}

// Text returns the report for people: the verdict of each way with its causes, what nodes
// know otherwise, and then the ways from node to node.
func (r *Report) Text(steps bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s -> %s: %s\n", r.From.Place(), r.To.Place(), r.headline())
	for _, block := range r.blocks((*Way).head, (*Way).headForm) {
		fmt.Fprintf(&b, "\n%s\n%s", block.title(), block.text)
	}
	var differences, silences []string
	for _, d := range r.Differences {
		differences = append(differences, d.String())
	}
	for _, s := range r.Silent {
		silences = append(silences, s.Node+": "+s.Why)
	}
	answer.List(&b, "Nodes know something else about the Service than the API server:", differences)
	answer.List(&b, "No answer, or not to everything:", silences)
	for _, block := range r.blocks((*Way).text, (*Way).form) {
		fmt.Fprintf(&b, "\nPath of %s:\n%s", block.title(), block.text)
	}
	for i := range r.Ways {
		if steps {
			r.Ways[i].steps(&b)
		}
	}
	answer.List(&b, "Notes:", r.Notes)
	return output.CleanText(b.String())
}

// headline returns whether packets arrive, by which nodes if that differs, and whether other
// Services or programs that do not listen are why not.
func (r *Report) headline() string {
	if r.Arrives == answer.Always && r.Answers != answer.Always && r.Answers != "" {
		return r.responses().Text()
	}
	text := cmp.Or(r.entriesText(), answer.ArrivalText(r.Arrives))
	var conflicts []string
	for i := range r.Ways {
		if w := &r.Ways[i]; w.holder != "" && !slices.Contains(conflicts, w.conflict()) {
			conflicts = append(conflicts, w.conflict())
		}
	}
	if len(conflicts) > 0 {
		text += ": " + some(conflicts)
	}
	return text
}

// entriesText returns at which nodes packets fare how, if that differs.
func (r *Report) entriesText() string {
	var all []string
	by := map[string][]string{}
	for _, e := range r.Entries {
		all, by[e.Arrives] = append(all, e.Node), append(by[e.Arrives], e.Node)
	}
	if len(by) < 2 {
		return ""
	}
	slices.SortFunc(all, findings.CompareNames)
	var parts []string
	for _, value := range []string{answer.Never, answer.Unknown, answer.Sometimes, answer.Always} {
		if nodes := by[value]; len(nodes) > 0 {
			slices.SortFunc(nodes, findings.CompareNames)
			parts = append(parts, answer.ArrivalText(value)+" by "+findings.Where(nodes, all, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// String returns "node-2 does not have endpoint 10.244.3.7:8080".
func (d Difference) String() string {
	if d.Lag == "" {
		return d.Node + " " + d.Text
	}
	return d.Node + " " + d.Text + " (" + d.Lag + ")"
}

// some returns the first of a list, and how many more there are.
func some(list []string) string { return nodestatus.JoinFirst(list, len(list), maxNamed) }

// A block is what is printed once for several ways that differ in addresses, family and protocol.
type block struct {
	first *Way
	alike []string // addresses of the others
	text  string
}

// title returns "10.244.1.7 -> 10.96.0.10:80/tcp, ClusterIP of shop/web:http", and which other
// addresses are alike.
func (b *block) title() string {
	w := b.first
	text := fmt.Sprintf("%s -> %s/%s", w.From, w.To, w.Protocol)
	if w.Service != "" {
		text += ", " + strings.TrimPrefix(w.Kind+" of "+w.Service, " of ")
	}
	if len(b.alike) > 0 {
		text += " (alike: " + strings.Join(b.alike, ", ") + ")"
	}
	return text
}

// blocks returns the ways with a text in blocks of the same form, in the order of their first
// ones.
func (r *Report) blocks(text func(*Way) string, form func(*Way) string) (out []*block) {
	of := map[string]*block{}
	for i := range r.Ways {
		w := &r.Ways[i]
		t, key := text(w), w.Kind+w.serviceName()+form(w)
		switch {
		case t == "":
		case of[key] == nil:
			of[key] = &block{first: w, text: t}
			out = append(out, of[key])
		default:
			of[key].alike = append(of[key].alike, w.To+"/"+w.Protocol)
		}
	}
	return out
}

// form returns what a path is made of, without what differs between two families and protocols in
// any case: addresses, and words of the nodes in which they are.
func (w *Way) form() string {
	var b strings.Builder
	for _, n := range w.answers() {
		a := n.Answer
		fmt.Fprint(&b, n.Node, a.Arrives, a.Unseen, a.Doubts, len(a.NotFollowed), len(a.Faults),
			a.Affinity != nil, a.Connection != nil)
		for _, o := range a.Outcomes {
			by := place(o.By.Table, o.By.Chain, o.Reason)
			fmt.Fprint(&b, o.Verdict, o.Probability, o.Masquerade, o.Reason, by, len(o.Endpoints))
		}
	}
	for _, e := range w.Endpoints {
		fmt.Fprint(&b, e.On, e.Pod, e.Client, e.Probability, e.Arrives, e.Response, e.Like != "", e.Why != "")
		if r := e.Reply; r.Verdict != "" {
			fmt.Fprint(&b, r.Verdict, r.Bypasses, r.Reason, place(r.By.Table, r.By.Chain, r.Reason))
		}
	}
	return b.String()
}

// headForm returns what the verdict and its causes are made of.
func (w *Way) headForm() string {
	text := fmt.Sprint(w.form(), w.Arrives, w.Answers, w.responses, w.holder, len(w.Causes))
	for _, c := range w.Causes {
		object, _, _ := strings.Cut(c.Object, ":")
		field, _, _ := strings.Cut(c.Field, ": ")
		if text += object + field; c.Field == "" {
			text += c.Text
		}
	}
	return text
}

// place returns the table and chain of a rule of another program. Our chains have numbers.
func place(table, chain, reason string) string {
	_, table, _ = strings.Cut(table, " ") // without the family
	if reason != "" {
		return table
	}
	return table + " " + chain
}

func (w *Way) head() string {
	text := "  " + answer.Indent(strings.ToUpper(w.Verdict[:1])+w.Verdict[1:]) + "\n"
	for _, c := range w.Causes {
		text += "  - " + answer.Indent(c.String()) + "\n"
	}
	return text
}

// text returns the way from node to node; nothing if it ends on the first one, since the verdict
// says that.
func (w *Way) text() string {
	a := w.Client.Answer
	if a == nil || len(w.Endpoints) == 0 {
		return ""
	}
	b := &strings.Builder{}
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		share := ""
		if len(a.Outcomes) > 1 {
			share = fmt.Sprintf("%.4g%% ", o.Probability*100)
		}
		fmt.Fprintf(b, "  %s: %s%s\n", w.Client.Node, share, answer.Indent(a.Sentence(o)))
	}
	w.endpointsText(b)
	return b.String()
}

func (w *Way) steps(b *strings.Builder) {
	for _, n := range w.answers() {
		fmt.Fprintf(b, "\nRules on %s for %s -> %s/%s:\n  %s\n", n.Node, w.From, w.To, w.Protocol,
			strings.TrimSpace(answer.Indent(n.Answer.Text())))
	}
}

func (w *Way) answers() (out []NodeAnswer) {
	if w.Client.Answer != nil {
		out = append(out, w.Client)
	}
	for _, e := range w.Endpoints {
		if e.There != nil && e.There.Answer != nil {
			out = append(out, *e.There)
		}
	}
	return out
}

// maxPrinted is how many endpoints are printed one by one.
const maxPrinted = 10

func (w *Way) endpointsText(b *strings.Builder) {
	printed := map[string]string{} // the first endpoint with a reason
	for i, e := range w.Endpoints {
		if i == maxPrinted {
			fmt.Fprintf(b, "  and %d more endpoints\n", len(w.Endpoints)-maxPrinted+w.unseen())
			return
		}
		where := cmp.Or(e.On, "outside the cluster")
		fmt.Fprintf(b, "  %s: %.4g%% %s, sees %s", where, e.Probability*100, e.title(), e.Sees)
		if e.Client != "" {
			b.WriteString(" (" + e.Client + ")")
		}
		b.WriteString(answer.Egress(&e.Endpoint))
		if e.Response != "" && e.Response != answer.Responds {
			b.WriteString(", " + e.Response)
		}
		switch like := printed[e.Why]; {
		case e.Arrives == answer.Always:
		case like != "":
			b.WriteString(": like " + like)
		default:
			b.WriteString(": " + answer.ArrivalText(e.Arrives) + ": " + answer.Indent(e.Why))
			printed[e.Why] = e.At()
		}
		b.WriteString("\n")
	}
}

func (e *Endpoint) title() string { return titleOf(e.At(), e.Pod) }

func titleOf(address, pod string) string {
	if pod == "" {
		return address
	}
	return address + " (pod " + pod + ")"
}
