package explain

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/explain/answer"
)

// A block is what is printed once for several ways that are equal up to addresses.
type block struct {
	ways []*Way
	text string // of the first one
}

// blocks returns ways in blocks, in the order of their first ones. Those for which text returns
// nothing are in none.
func blocks(ways []*Way, text func(*Way) string) (out []block) {
	of := map[string]int{} // index of the block
	for _, w := range ways {
		t := text(w)
		key := w.target(false) + "\n" + withoutAddresses(t)
		i, found := of[key]
		switch {
		case t == "":
			continue
		case !found:
			i = len(out)
			of[key] = i
			out = append(out, block{text: t})
		}
		out[i].ways = append(out[i].ways, w)
	}
	return out
}

// address matches what may be an address or prefix, with a port and a protocol.
var address = regexp.MustCompile(`\[?[0-9A-Fa-f]*[.:][0-9A-Fa-f.:]*\]?(:\d+)?(/\d+)?(/(tcp|udp|sctp))?`)

// duration matches a time in seconds, which passes between answers.
var duration = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+s\b`)

// withoutAddresses replaces addresses and times in a text, and what is named after a family and
// protocol.
func withoutAddresses(text string) string {
	text = address.ReplaceAllStringFunc(text, func(found string) string {
		core := strings.TrimRight(found, ".:")
		end := found[len(core):]
		for _, p := range []string{"/tcp", "/udp", "/sctp"} {
			core = strings.TrimSuffix(core, p)
		}
		if _, err := netip.ParseAddrPort(core); err == nil {
			return "ADDRESS" + end
		}
		if _, err := netip.ParsePrefix(core); err == nil {
			return "RANGE" + end
		}
		if _, err := netip.ParseAddr(strings.Trim(core, "[]")); err == nil {
			return "ADDRESS" + end
		}
		return found
	})
	text = duration.ReplaceAllString(text, "TIME")
	return strings.NewReplacer("IPv4", "IP", "IPv6", "IP", "ICMPv6", "ICMP").Replace(text)
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
