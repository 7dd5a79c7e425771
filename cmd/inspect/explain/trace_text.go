package explain

import (
	"cmp"
	"fmt"
	"strings"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/trace"
)

func traceText(number int, w *trace.Path) string {
	var s strings.Builder
	s.WriteString(heading(number, w))
	hook := simulate.Hook("")
	for i := range w.Visits {
		p := &w.Visits[i]
		if p.Chain.IsTracer() {
			continue
		}
		if p.Chain.Hook != hook {
			hook = p.Chain.Hook
			way := strings.TrimSuffix(", to "+p.Out, ", to ") // the chain may have been deleted
			fmt.Fprintf(&s, "  %s%s\n", cmp.Or(hook, "(hook not known)"), way)
		}
		writeVisit(&s, p)
		if i+1 < len(w.Visits) {
			writeTranslation(&s, p.Packet, w.Visits[i+1].Packet)
		}
	}
	s.WriteString(ending(w))
	return s.String()
}

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

func writeVisit(s *strings.Builder, p *trace.Visit) {
	fmt.Fprintf(s, "  %6d  %s %s", p.Chain.Priority, p.Chain.Table, p.Chain.Name)
	width, matched := 0, false
	for _, step := range p.Steps {
		width, matched = max(width, len(step.Chain)), matched || step.Kind != trace.KindPolicy
	}
	if !matched {
		s.WriteString(": no rule matched")
	}
	for _, step := range p.Steps {
		switch {
		case step.Kind != trace.KindPolicy:
			fmt.Fprintf(s, "\n            %-*s  %s", width, step.Chain, stepText(&step))
		case matched:
			fmt.Fprintf(s, "\n            policy %s", simulate.VerdictText(&step.Verdict))
		default:
			fmt.Fprintf(s, ", policy %s", simulate.VerdictText(&step.Verdict))
		}
	}
	s.WriteString("\n")
}

// stepText returns the rule and its verdict, which the rule may show already.
func stepText(step *trace.Step) string {
	text := ruleText(step.Rule)
	verdict := simulate.VerdictText(&step.Verdict)
	switch {
	case verdict == "continue", strings.HasSuffix(step.Rule.Text, verdict), step.Rule.Rejects:
	default:
		text = strings.TrimPrefix(text+"  -> "+verdict, "  -> ")
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

func writeTranslation(s *strings.Builder, before, after simulate.Packet) {
	if !before.To.IsValid() || !after.To.IsValid() {
		return
	}
	if before.To != after.To {
		fmt.Fprintf(s, "          destination %s becomes %s\n", before.To, after.To)
	}
	if before.From != after.From || before.FromPort != after.FromPort {
		fmt.Fprintf(s, "          source %s becomes %s\n", before.Source(), after.Source())
	}
}

// ending returns what happened to the packet, and the next step of a diagnosis.
func ending(w *trace.Path) string {
	how, p, step := w.End()
	switch how {
	case trace.EndingDropped:
		return by("DROPPED", p, step)
	case trace.EndingRejected:
		return by("REJECTED, with a reply to its sender,", p, step)
	case trace.EndingPolicyDrop:
		return fmt.Sprintf("  DROPPED by the policy of table %s, chain %s (%s): no rule there accepts it\n%s",
			p.Chain.Table, p.Chain.Name, p.Chain.Hook, see(p, p.Chain.Name))
	case trace.EndingQueued:
		return by("HANDED to a program that has not given it back (NFQUEUE)", p, step)
	case trace.EndingStolen:
		return by("TAKEN out of the normal path", p, step)
	case trace.EndingSent:
		return fmt.Sprintf("  SENT by %s as %s\n", p.Out, p.Packet)
	case trace.EndingDelivered:
		return fmt.Sprintf("  DELIVERED to the node itself as %s\n"+
			"    without an answer, no program listens there: ss -ltunSp\n", p.Packet)
	case trace.EndingLostInHook:
		return lostIn(p)
	case trace.EndingLostAfterHook:
		return fmt.Sprintf("  LOST after hook %s: nf_tables accepted it as %s, and saw it in no other hook\n%s",
			p.Chain.Hook, p.Packet, betweenHooks(p, w.Refusal))
	case trace.EndingNotSeenAgain:
		return notSeenAgain(p, w.Refusal)
	}
	return "  Its fate is not known: messages of the kernel were lost.\n"
}

func by(what string, p *trace.Visit, step *trace.Step) string {
	s := fmt.Sprintf("  %s by table %s, chain %s", what, p.Chain.Table, step.Chain)
	if step.Chain != p.Chain.Name {
		s += " (from " + p.Chain.Name + ")"
	}
	s += fmt.Sprintf(", rule %d", step.Rule.Handle)
	if step.Rule.Comment != "" {
		s += fmt.Sprintf(", comment %q", step.Rule.Comment)
	}
	s += "\n    the rule: " + ruleText(step.Rule) + "\n"
	if p.Chain.Table.Name == nft.TableName() {
		s += stopTexts[nft.ChainNamed(model.IPv4, step.Chain).Means()]
	}
	return s + see(p, step.Chain)
}

func see(p *trace.Visit, chain string) string {
	return fmt.Sprintf("    to list it: nft -a list chain %s %s\n", p.Chain.Table, chain)
}

var stopTexts = map[nft.Meaning]string{
	nft.MeansChecksSource: "    the Service has source ranges, which exclude the client\n",
	nft.MeansRejects:      "    the Service has no endpoints that are ready, or no such port\n",
	nft.MeansRetries:      "    the endpoint refuses the connection: the client is to send again\n",
	nft.MeansHolds:        "    the Service has no endpoint that serves: the client is to send again until there is one\n",
	nft.MeansChecksService: "    the Service has endpoints, but none that this node may use (traffic policy Local), " +
		"or no Service has the address\n",
	nft.MeansDropsInvalid: "    connection tracking calls the packet invalid, so it would not be translated\n",
}

// lostIn lists what a hook has besides nf_tables.
func lostIn(p *trace.Visit) string {
	last := "its start"
	if !p.Chain.IsTracer() {
		last = fmt.Sprintf("chain %s of table %s, priority %d,", p.Chain.Name, p.Chain.Table, p.Chain.Priority)
	}
	return fmt.Sprintf("  LOST in hook %s: it reached %s but not the end of the hook, and no rule of nf_tables took it\n"+
		"    what else is in the hook: iptables-legacy (iptables-legacy-save -c), connection tracking (conntrack -S), "+
		"IPVS, BPF\n",
		p.Chain.Hook, last)
}

// notSeenAgain lists what may have happened to a packet between a bridge and the node. It
// may have arrived.
func notSeenAgain(p *trace.Visit, refusal string) string {
	routing := "routing does not reject it"
	if refusal != "" {
		routing = "routing would reject it (" + refusal + "), unless the bridge forwards it"
	}
	return fmt.Sprintf(`  NOT SEEN AGAIN after hook prerouting: nf_tables accepted it as %[1]s,
    and saw it in no other hook; whether it arrived is not certain: %[3]s
    the bridge %[2]s may have dropped it: ip neigh show dev %[2]s; bridge -d link; bridge vlan
    a program may have taken it there: tc filter show dev %[2]s ingress
`, p.Packet, p.In, routing)
}

// betweenHooks lists what follows a hook. refusal is why routing rejects the packet, if known.
func betweenHooks(p *trace.Visit, refusal string) string {
	from, to := p.Packet.From, p.Packet.To.Addr()
	switch p.Chain.Hook {
	case "prerouting":
		return fmt.Sprintf("    it was rejected: %s\n"+
			"    to check: ip route get %s from %s iif %s; sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding\n",
			cmp.Or(refusal, "no route, rp_filter, or forwarding is off"), to, from, p.In)
	case "output":
		return fmt.Sprintf("    no route to its translated destination; to check: ip route get %s\n", to)
	case "forward":
		return "    no link to the next hop, or the packet is longer than its MTU: ip neigh, ip link\n"
	}
	return ""
}
