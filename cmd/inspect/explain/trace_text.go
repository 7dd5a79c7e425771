package explain

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"kube-vmap/nft/kernel/trace"
)

// traceText describes the path of a packet, in some lines.
func traceText(number int, w *trace.Path) string {
	var s strings.Builder
	s.WriteString(heading(number, w))
	hook := ""
	for i := range w.Visits {
		p := &w.Visits[i]
		if p.Chain.IsTracer() {
			continue
		}
		if p.Chain.Hook != hook {
			hook = p.Chain.Hook
			fmt.Fprintf(&s, "  %s%s\n", cmp.Or(hook, "(hook not known)"), way(p)) // the chain may have been deleted
		}
		writeVisit(&s, p)
		if i+1 < len(w.Visits) {
			writeTranslation(&s, p.Packet, w.Visits[i+1].Packet)
		}
	}
	s.WriteString(ending(w))
	return s.String()
}

// heading describes the packet as it arrived.
func heading(number int, w *trace.Path) string {
	if len(w.Visits) == 0 {
		return fmt.Sprintf("packet %d\n", number)
	}
	first := &w.Visits[0]
	s := fmt.Sprintf("packet %d  %s", number, first.Packet)
	if w.IsReply {
		s = fmt.Sprintf("answer, packet %d  %s", number, first.Packet)
	}
	if first.In != "" {
		s += ", in by " + first.In
	} else {
		s += ", from the node itself"
	}
	switch w.State {
	case "":
	case "new":
		s += ", opens a connection"
	case "established":
		s += ",\n  of an open connection: chains of type nat do not see it"
	case "invalid":
		s += ",\n  which connection tracking calls invalid: it will not be translated"
	default:
		s += ", to connection tracking " + w.State
	}
	if w.Lost {
		s += "\n  (messages of the kernel were lost: some steps may be missing)"
	}
	return s + "\n"
}

// way returns the outgoing interface, if the hook has one.
func way(p *trace.Visit) string {
	if p.Out == "" {
		return ""
	}
	return ", to " + p.Out
}

// writeVisit writes a base chain and its steps.
func writeVisit(s *strings.Builder, p *trace.Visit) {
	fmt.Fprintf(s, "  %6d  %s %s", p.Chain.Priority, p.Chain.Table, p.Chain.Name)
	width := 0
	rules := 0
	for _, step := range p.Steps {
		width = max(width, len(step.Chain))
		if step.Kind != trace.KindPolicy {
			rules++
		}
	}
	if rules == 0 {
		s.WriteString(": no rule matched")
	}
	for _, step := range p.Steps {
		if step.Kind == trace.KindPolicy {
			if rules == 0 {
				fmt.Fprintf(s, ", policy %s", step.Verdict)
			} else {
				fmt.Fprintf(s, "\n            policy %s", step.Verdict)
			}
			continue
		}
		fmt.Fprintf(s, "\n            %-*s  %s", width, step.Chain, stepText(&step))
	}
	s.WriteString("\n")
}

// stepText returns the rule and its verdict, which the rule may show already.
func stepText(step *trace.Step) string {
	text := ruleText(step.Rule)
	verdict := step.Verdict.String()
	switch {
	case verdict == "continue", strings.HasSuffix(step.Rule.Text, verdict), step.Rule.Rejects:
	case text == "":
		text = verdict
	default:
		text += "  -> " + verdict
	}
	if step.Rule.Comment != "" {
		text += fmt.Sprintf("  comment %q", step.Rule.Comment)
	}
	return text
}

func ruleText(r trace.Rule) string {
	if r.Gone {
		return fmt.Sprintf("(rule %d, which has been replaced since)", r.Handle)
	}
	return r.Text
}

// writeTranslation writes which addresses changed between two chains.
func writeTranslation(s *strings.Builder, before, after trace.Packet) {
	unknown := netip.AddrPort{}
	if before.To == unknown || after.To == unknown {
		return
	}
	if before.To != after.To {
		fmt.Fprintf(s, "          destination %s becomes %s\n", before.To, after.To)
	}
	if before.From != after.From {
		fmt.Fprintf(s, "          source %s becomes %s\n", before.From, after.From)
	}
}
