package explain

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/output"
	"kube-vmap/cmd/kubectl-vmap/nodes"
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
	for _, block := range r.blocks((*Way).head) {
		fmt.Fprintf(&b, "\n%s\n%s", block.title(), block.text)
	}
	var differences, silences []string
	for _, d := range r.Differences {
		differences = append(differences, d.String())
	}
	for _, s := range r.Silent {
		silences = append(silences, s.Node+": "+s.Why)
	}
	list(&b, "Nodes know something else about the Service than the API server:", differences)
	list(&b, "No answer, or not to everything:", silences)
	for _, block := range r.blocks((*Way).text) {
		fmt.Fprintf(&b, "\nThe way of %s:\n%s", block.title(), block.text)
	}
	for i := range r.Ways {
		if steps {
			r.Ways[i].steps(&b)
		}
	}
	list(&b, "Notes:", r.Notes)
	return nodes.CleanText(b.String())
}

// headline returns whether packets arrive, by which nodes if that differs, and whether other
// Services or programs that do not listen are why not.
func (r *Report) headline() string {
	if r.Arrives == answer.Always && r.Answers != answer.Always && r.Answers != "" {
		return r.responses().Text()
	}
	text := cmp.Or(r.entriesText(), arrivalTexts[r.Arrives])
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
			parts = append(parts, arrivalTexts[value]+" by "+findings.Where(nodes, all, ", "))
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

func list(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, l := range lines {
		fmt.Fprintf(b, "  %s\n", indent(l))
	}
}

// indent indents the further lines of a text.
func indent(text string) string { return strings.ReplaceAll(text, "\n", "\n  ") }

// some returns the first of a list, and how many more there are.
func some(list []string) string { return nodestatus.JoinFirst(list, len(list), maxNamed) }

// A block is what is printed once for several ways that are equal up to addresses.
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

// blocks returns the ways with a text in blocks of the same text, in the order of their first
// ones.
func (r *Report) blocks(text func(*Way) string) (out []*block) {
	of := map[string]*block{}
	for i := range r.Ways {
		w := &r.Ways[i]
		t := text(w)
		if t == "" {
			continue
		}
		key := w.Kind + w.serviceName() + "\n" + w.masked(t)
		if of[key] == nil {
			of[key] = &block{first: w, text: t}
			out = append(out, of[key])
			continue
		}
		of[key].alike = append(of[key].alike, w.To+"/"+w.Protocol)
	}
	return out
}

var addressLike = regexp.MustCompile(`[0-9a-f.:[\]]+`)

// masked returns a text without what differs between two families and protocols in any case: the
// addresses, and their own names.
func (w *Way) masked(text string) string {
	text = addressLike.ReplaceAllStringFunc(text, func(word string) string {
		bare := strings.TrimRight(word, ".:")
		if addr(bare).IsValid() || addrPort(bare).IsValid() {
			return ""
		}
		return word
	})
	return strings.NewReplacer("table ip6 ", "table ip ", "chain ip6 ", "chain ip ",
		w.Family, "", w.Protocol, "", strings.ToUpper(w.Protocol), "").Replace(text)
}

// head returns the verdict with its causes.
func (w *Way) head() string {
	text := "  " + indent(strings.ToUpper(w.Verdict[:1])+w.Verdict[1:]) + "\n"
	for _, c := range w.Causes {
		text += "  - " + indent(c.String()) + "\n"
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
		fmt.Fprintf(b, "  %s: %s%s\n", w.Client.Node, share, indent(w.Client.named(a.Sentence(o))))
	}
	w.endpointsText(b)
	return b.String()
}

// steps prints the rules that the packet meets on each node.
func (w *Way) steps(b *strings.Builder) {
	for _, n := range w.answers() {
		fmt.Fprintf(b, "\nRules on %s for %s -> %s/%s:\n  %s\n", n.Node, w.From, w.To, w.Protocol,
			strings.TrimSpace(indent(n.Answer.Text())))
	}
}

// answers returns the answers of all nodes.
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
		where := cmp.Or(e.Node, "outside the cluster")
		fmt.Fprintf(b, "  %s: %.4g%% %s, sees %s", where, e.Probability*100, e.title(), e.Sees)
		if e.Client != "" {
			b.WriteString(" (" + e.Client + ")")
		}
		if e.Response != "" && e.Response != answer.Responds {
			b.WriteString(", " + e.Response)
		}
		switch like := printed[e.Why]; {
		case e.Arrives == answer.Always:
		case like != "":
			b.WriteString(": like " + like)
		default:
			b.WriteString(": " + arrivalTexts[e.Arrives] + ": " + indent(e.Why))
			printed[e.Why] = e.Address
		}
		b.WriteString("\n")
	}
}

func (e *Endpoint) title() string {
	if e.Pod == "" {
		return e.Address
	}
	return e.Address + " (pod " + e.Pod + ")"
}
