package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/explain/answer"
)

// A block is what is printed once for several ways that are equal up to addresses.
type block struct {
	ways []*Way
	text string // of the first one
}

// blocks returns the ways with a text in blocks of the same shape, in the order of their
// first ones.
func (r *Report) blocks(text func(*Way) string, shape func(*Way) string) (out []*block) {
	of := map[string]*block{}
	for i := range r.Ways {
		w := &r.Ways[i]
		t, key := text(w), shape(w)
		switch {
		case t == "":
			continue
		case of[key] == nil:
			of[key] = &block{text: t}
			out = append(out, of[key])
		}
		of[key].ways = append(of[key].ways, w)
	}
	return out
}

// shape returns what is the same for ways that differ in addresses, ports and times only.
func (w *Way) shape() string {
	s := fmt.Sprint(w.target(false), w.Arrives, w.Answers, w.conflict != nil)
	for _, c := range w.Causes {
		object, _, _ := strings.Cut(c.Object, ":") // without the port
		field, _, _ := strings.Cut(c.Field, ": ")
		s += fmt.Sprint("|", object, field)
	}
	return s + w.wayShape()
}

// wayShape returns that of the way from node to node.
func (w *Way) wayShape() string {
	s := w.target(false) + shapeOf(w.Client.Answer)
	for i := range w.Endpoints {
		e := &w.Endpoints[i]
		s += fmt.Sprint("|", e.Pod, e.Node, e.Arrives, e.Response, e.Client, e.Like != "")
		if e.There != nil {
			s += shapeOf(e.There.Answer)
		}
	}
	return s
}

// shapeOf returns that of the answer of one node. A refusal names TCP or ICMP.
func shapeOf(a *answer.Answer) string {
	if a == nil {
		return ""
	}
	s := a.Arrives
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		s += fmt.Sprintf(";%s %.4g %t %d %t %s", o.Verdict, o.Probability, o.Masquerade, len(o.Endpoints),
			o.Verdict == answer.VerdictRefused && a.Protocol == "tcp", o.Field)
		s += ruleShape(o.By)
		for k := range o.Endpoints {
			if r := o.Endpoints[k].Reply; r != nil {
				s += fmt.Sprint(r.Verdict, r.Bypasses) + ruleShape(r.By)
			}
		}
	}
	return s
}

// ruleShape returns the rule that decided; of a table for one family, without that.
func ruleShape(by *answer.RuleRef) string {
	if by == nil {
		return ""
	}
	return fmt.Sprint(strings.TrimPrefix(strings.TrimPrefix(by.Table, "ip6 "), "ip "), by.Chain, by.Rule)
}

// title returns "10.244.1.7 -> 10.96.0.10:80/tcp, ClusterIP of shop/web:http" for one way,
// and for several "TCP, UDP; IPv4 and IPv6: 10.244.1.7 -> 10.96.0.10:80, ...".
func (b *block) title() string {
	if len(b.ways) == 1 {
		return b.ways[0].String()
	}
	return b.kinds() + ": " + b.pairs() + b.ways[0].target(b.samePort())
}

// others returns which other ways the text is about.
func (b *block) others() string {
	if len(b.ways) == 1 {
		return ""
	}
	return " (" + b.kinds() + " alike)"
}

// kinds returns the protocols and families: "TCP, UDP; IPv4 and IPv6", or for each protocol
// its families if they differ.
func (b *block) kinds() string {
	families := map[string]string{} // by protocol
	var protocols []string
	for _, w := range b.ways {
		p := strings.ToUpper(w.Protocol)
		if !slices.Contains(protocols, p) {
			protocols = append(protocols, p)
		}
		if !strings.Contains(families[p], w.Family) {
			families[p] = strings.TrimPrefix(families[p]+" and "+w.Family, " and ")
		}
	}
	for _, p := range protocols {
		if families[p] != families[protocols[0]] {
			var each []string
			for _, p := range protocols {
				each = append(each, p+" over "+families[p])
			}
			return strings.Join(each, ", ")
		}
	}
	return strings.Join(protocols, ", ") + "; " + families[protocols[0]]
}

// pairs returns who sends to which addresses.
func (b *block) pairs() string {
	var list []string
	for _, w := range b.ways {
		list = append(list, w.From+" -> "+w.To)
	}
	return some(unique(list))
}

// samePort reports whether all ways are to the same port of the Service.
func (b *block) samePort() bool {
	return !slices.ContainsFunc(b.ways, func(w *Way) bool { return w.Service != b.ways[0].Service })
}

// refusal returns which packets reach only endpoints that are known to refuse connections;
// empty if none do.
func (r *Report) refusal() string {
	var ports []string
	refused := 0
	for i := range r.Ways {
		if w := &r.Ways[i]; w.Arrives == answer.Always && w.responses.All > 0 && w.responses.Refuse == w.responses.All {
			refused++
			to, _ := netip.ParseAddrPort(w.To)
			ports = append(ports, fmt.Sprintf("%d/%s", to.Port(), w.Protocol))
		}
	}
	switch refused {
	case 0:
		return ""
	case len(r.Ways):
		return "reaches only endpoints that refuse connections"
	}
	return arrivalTexts[r.Arrives] + ", but all endpoints refuse connections to " + some(unique(ports))
}
