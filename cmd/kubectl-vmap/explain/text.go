package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/explain/answer"
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
	fmt.Fprintf(&b, "%s -> %s: %s\n", r.From, r.To, r.headline())
	for _, block := range r.blocks((*Way).head, (*Way).shape) {
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
	for _, block := range r.blocks((*Way).text, (*Way).wayShape) {
		first := block.ways[0]
		fmt.Fprintf(&b, "\nThe way of %s -> %s/%s%s:\n%s", first.From, first.To, first.Protocol, block.others(), block.text)
	}
	for i := range r.Ways {
		if steps {
			r.Ways[i].steps(&b)
		}
	}
	list(&b, "Notes:", r.Notes)
	return nodes.CleanText(b.String())
}

// headline returns whether packets arrive, and whether another Service or programs that do not
// listen are why not.
func (r *Report) headline() string {
	if refusal := r.refusal(); refusal != "" {
		return refusal
	}
	if r.Arrives == answer.Always && r.Answers != answer.Always && r.Answers != "" {
		return r.responses().Text()
	}
	text := arrivalTexts[r.Arrives]
	if entries := r.entriesText(); entries != "" {
		text = entries
	}
	if conflicts := r.conflicts(); conflicts != "" {
		text += ": " + conflicts
	}
	return text
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

// String returns "pod shop/cart-7f9 on node-1".
func (p Party) String() string {
	text := strings.TrimPrefix(p.Namespace+"/"+p.Name, "/")
	if p.Kind != "address" {
		text = p.Kind + " " + text
	}
	switch {
	case p.Of != "":
		text += ", " + p.Of
	case p.Node != "" && p.Kind != "node":
		text += " on " + p.Node
	case p.Node == "" && p.Kind == "address":
		text += " outside the cluster"
	}
	return text
}

// head returns the verdict with its causes.
func (w *Way) head() string {
	text := "  " + indent(upperFirst(w.Verdict)) + "\n"
	for _, c := range w.Causes {
		text += "  - " + indent(c.String()) + "\n"
	}
	return text
}

// String returns "10.244.1.7 -> 10.96.0.10:80/tcp, ClusterIP of shop/web:http".
func (w *Way) String() string {
	return fmt.Sprintf("%s -> %s/%s%s", w.From, w.To, w.Protocol, w.target(true))
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
		fmt.Fprintf(b, "  %s: %s%s\n", w.Client.Node, share, indent(named(a.Sentence(o), w.Client.Node)))
	}
	w.endpointsText(b)
	w.backText(b)
	return b.String()
}

// steps prints the rules that the packet meets on each node.
func (w *Way) steps(b *strings.Builder) {
	for _, n := range w.answers() {
		fmt.Fprintf(b, "\nRules on %s for %s -> %s/%s:\n  %s\n", n.Node, w.From, w.To, w.Protocol,
			strings.TrimSpace(indent(n.Answer.Text())))
	}
}

// target returns the Service that has the address, with the port's name if that is wanted.
func (w *Way) target(port bool) string {
	service := w.Service
	if !port {
		service, _, _ = strings.Cut(service, ":")
	}
	switch {
	case service != "" && w.Kind != "":
		return ", " + w.Kind + " of " + service
	case service != "":
		return ", " + service
	}
	return ""
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// named replaces "this node", as an answer of a node calls it, by the node's name.
func named(sentence, node string) string { return strings.ReplaceAll(sentence, "this node", node) }

// maxPrinted is how many endpoints are printed one by one.
const maxPrinted = 10

func (w *Way) endpointsText(b *strings.Builder) {
	for i, e := range w.Endpoints {
		if i == maxPrinted {
			fmt.Fprintf(b, "  and %d more endpoints\n", len(w.Endpoints)-maxPrinted+w.unseen())
			return
		}
		where := e.Node
		if where == "" {
			where = "outside the cluster"
		}
		fmt.Fprintf(b, "  %s: %.4g%% %s, sees %s", where, e.Probability*100, e.title(), e.sees())
		if e.Response != "" && e.Response != answer.Responds {
			b.WriteString(", " + e.Response)
		}
		switch {
		case e.Arrives != answer.Always && !w.isLike(&e):
			fmt.Fprintf(b, ": %s: %s", arrivalTexts[e.Arrives], firstLine(e.Why))
		case e.Arrives != answer.Always:
			fmt.Fprintf(b, ": like %s", e.Like)
		}
		b.WriteString("\n")
	}
}

// isLike reports whether an endpoint that was not followed fails as the followed one of its node.
func (w *Way) isLike(e *Endpoint) bool {
	return slices.ContainsFunc(w.Endpoints, func(o Endpoint) bool {
		return o.There != nil && o.Address == e.Like &&
			o.Why == e.Why
	})
}

func (e *Endpoint) sees() string {
	if e.Client == "" {
		return e.Sees
	}
	return e.Sees + " (" + e.Client + ")"
}

// firstLine returns a reason without the command that shows more, which the verdict has.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func (e *Endpoint) title() string {
	if e.Pod == "" {
		return e.Address
	}
	return e.Address + " (pod " + e.Pod + ")"
}

// backText prints the way of the replies: where they pass the nodes of endpoints, and then the
// client's node, once for those that it treats alike.
func (w *Way) backText(b *strings.Builder) {
	for i := range w.Endpoints {
		e := &w.Endpoints[i]
		if e.There == nil || e.There.Answer == nil {
			continue
		}
		text := lostReply(e.There.Answer)
		switch {
		case text == "" && e.Arrives == answer.Always && e.Reply != nil:
			text = fmt.Sprintf("passes the reply of %s on to %s", e.Address, e.Sees)
		case text == "":
			continue
		}
		fmt.Fprintf(b, "  back, %s: %s\n", e.Node, firstLine(named(text, e.Node)))
	}
	var texts []string
	for i := range w.Endpoints {
		arrives, _ := w.Endpoints[i].there()
		if t := w.replyText(&w.Endpoints[i]); t != "" && arrives == answer.Always && !slices.Contains(texts, t) &&
			len(texts) < maxPrinted {
			texts = append(texts, t)
			fmt.Fprintf(b, "  back, %s: %s\n", w.Client.Node, firstLine(named(t, w.Client.Node)))
		}
	}
}
