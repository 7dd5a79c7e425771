package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/model"
	"kube-vmap/nft/simulate"
)

// Ask requests a document from the running process.
type Ask func(ctx context.Context, q nodestatus.Query) (*nodestatus.Document, error)

// addHints adds what the running process knows about the packet, and returns its
// document; nil if it does not answer.
func addHints(ctx context.Context, a *answer.Answer, ask Ask, p simulate.Packet,
	observe time.Duration,
) *nodestatus.Document {
	d, err := ask(ctx, query(a, observe))
	if err != nil {
		a.Process = err.Error()
		const only = ", so this is what the kernel's tables hold, and nothing of the objects behind them"
		switch {
		case errors.Is(err, client.ErrNoSocket):
			a.Process = "no kube-vmap was asked, since --status-socket is empty" + only
		case errors.Is(err, client.ErrNotRunning):
			a.Process = "no kube-vmap answers here" + only + "; kube-vmap diff --manifests compares them with the objects"
		case errors.Is(err, client.ErrUnresponsive):
			a.Process += only
		}
		return nil
	}
	a.Process = "answers"
	h := hinter{Answer: a, packet: p, document: d}
	if !d.Ready {
		h.add("kube-vmap has not programmed everything yet")
	}
	service, port, frontend := h.service()
	if port != nil && a.Service == "" {
		h.add("%s/%s has this address and port, but the kernel's tables do not", service.Namespace, service.Name)
		a.Service = service.Namespace + "/" + service.Name
		if d, err = ask(ctx, query(a, observe)); err != nil {
			return nil
		}
		h.document = d
		service, port, frontend = h.service()
	}
	switch {
	case port == nil:
		h.ofAddress()
	case h.restricted(frontend):
		h.problems(service.Problems)
	default:
		h.ofPort(service, port, frontend)
	}
	h.fastPath()
	return d
}

// query asks for the Service with its endpoints or, if there is none, for a brief document.
// Whether endpoints respond matters if the packet goes to one.
func query(a *answer.Answer, observe time.Duration) nodestatus.Query {
	namespace, rest, ok := strings.Cut(a.Service, "/")
	if !ok {
		return nodestatus.Query{Brief: true}
	}
	name, _, _ := strings.Cut(rest, ":")
	if !slices.ContainsFunc(a.Outcomes, func(o answer.Outcome) bool { return o.Verdict == answer.VerdictDelivered }) {
		observe = 0
	}
	return nodestatus.Query{Namespace: namespace, Name: name, Observe: observe}
}

type hinter struct {
	*answer.Answer

	packet   simulate.Packet
	document *nodestatus.Document
}

func (h *hinter) add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(h.Hints, text) {
		h.Hints = append(h.Hints, text)
	}
}

// requested reports whether the packet is for the frontend.
func (h *hinter) requested(port *nodestatus.Port, f nodestatus.Frontend) bool {
	return f.Port == h.packet.To.Port() && h.hasProtocol(port) && h.at(f)
}

func (h *hinter) hasProtocol(port *nodestatus.Port) bool {
	return strings.EqualFold(port.Protocol, h.packet.Protocol.String()) && port.Family == h.packet.Family().String()
}

// at reports whether the packet is for the frontend's address; for node ports, an address
// of the node.
func (h *hinter) at(f nodestatus.Frontend) bool {
	to := h.packet.To.Addr().String()
	if f.Address == "" {
		return slices.Contains(h.document.NodeAddresses, to)
	}
	return f.Address == to
}

// service finds the Service port and frontend that the packet is for; nil if there is
// none.
func (h *hinter) service() (*nodestatus.Service, *nodestatus.Port, nodestatus.Frontend) {
	for i := range h.document.Services {
		s := &h.document.Services[i]
		for j := range s.Ports {
			for _, f := range s.Ports[j].Frontends {
				if h.requested(&s.Ports[j], f) {
					h.setKind(f.Kind)
					return s, &s.Ports[j], f
				}
			}
		}
	}
	return nil, nil, nodestatus.Frontend{}
}

// setKind sets the kind of the frontend, which the tables do not have for all of them, and
// the fields that follow from it.
func (h *hinter) setKind(kind string) {
	h.Kind = kind
	for i := range h.Outcomes {
		o := &h.Outcomes[i]
		o.Field = cmp.Or(becauseField(simulate.Reason(o.Reason), kind), o.Field)
	}
}

// restricted adds who may connect, if source ranges dropped the packet.
func (h *hinter) restricted(f nodestatus.Frontend) bool {
	o := h.Likeliest()
	if !f.Restricted || o.Reason != string(simulate.ReasonSourceRanges) {
		return false
	}
	if len(f.Sources) == 0 {
		h.add("no address of this family may connect (%s)", findings.FieldSourceRanges)
	} else {
		h.add("only %s may connect (%s)", strings.Join(f.Sources, ", "), findings.FieldSourceRanges)
	}
	return true
}

// maxHinted is how many endpoints without connections are named.
const maxHinted = 10

// reasons explain why endpoints get no connections.
var reasons = map[string]string{
	"NotReady":      "it is not ready",
	"Terminating":   "it is terminating, while others are ready",
	"Drained":       "its EndpointSlice has weight 0",
	"NotLocal":      "it is on another node, and the policy is Local",
	"OtherZones":    "its topology hints are for other zones",
	"OtherNodes":    "its topology hints are for other nodes",
	"NoPort":        "its EndpointSlice does not have the port",
	"Duplicate":     "another entry for the same address is used",
	"NotProgrammed": "it is not programmed",
	"Busy":          "it has more active connections than others, for now",
}

// shares names the active connections that decide the shares of endpoints.
func (h *hinter) shares(port *nodestatus.Port) {
	if port.Scheduler != model.SchedulerLeastConnections.String() || port.Shares(false)+port.Shares(true) == 0 {
		return
	}
	var active []string
	percent := port.SharePercents()
	for _, e := range port.Endpoints {
		if _, uneven := percent(&e); uneven && len(active) < maxHinted {
			active = append(active, fmt.Sprintf("%s has %d", endpointText(e), e.Active))
		}
	}
	h.add("the scheduler lc gives endpoints with fewer active connections a larger share: %s", strings.Join(active, ", "))
}

// noneLocal reports whether kube-vmap dropped the packet because the policy leaves no
// endpoint on this node.
func (h *hinter) noneLocal() bool {
	return h.Likeliest().Reason == string(simulate.ReasonNoLocalEndpoint)
}

// ofPort adds what is known about the Service port, for a packet to one of its frontends.
func (h *hinter) ofPort(s *nodestatus.Service, port *nodestatus.Port, f nodestatus.Frontend) {
	unused, used := 0, 0
	noneLocal := h.noneLocal()
	for _, e := range port.Endpoints {
		field := findings.FieldOf(s, &e)
		switch {
		case e.Reason == nodestatus.ReasonGone:
			continue
		case e.Reason == "" && !(noneLocal && e.LocalSlot == nil):
			used++
			continue
		case e.Reason == "":
			e.Reason, field = "NotLocal", localField(f.Kind)
		}
		if unused++; unused <= maxHinted {
			h.add("%s gets no connections: %s%s", endpointText(e), reasonText(e), answer.InParentheses(field))
		}
	}
	if unused > maxHinted {
		h.add("and %d more endpoints get no connections", unused-maxHinted)
	}
	h.connections(s, port)
	h.shares(port)
	h.findings(s, port, f)
	if used+unused == 0 && !s.WithoutSelector {
		h.add("no EndpointSlice names an endpoint for this port: does the selector of the Service match pods? (%s)",
			findings.FieldSelector)
	} else if used+unused == 0 {
		h.add("no EndpointSlice names an endpoint for this port: the Service has no selector, so that an author must " +
			"write one")
	}
	h.problems(s.Problems)
	h.problems(s.Contested)
}

// hintedReasons are the reasons of findings that nothing else here explains.
var hintedReasons = []string{
	findings.Refuses, findings.Silent, findings.Fallback, findings.PublishedEarly, findings.LocalPolicy,
	findings.NoneLocal,
	findings.Affinity, findings.Scheduler, findings.Weights, findings.Stale,
}

// findings adds the findings about the frontend, or about all of the port.
func (h *hinter) findings(s *nodestatus.Service, port *nodestatus.Port, f nodestatus.Frontend) {
	one := *s
	one.Ports, one.Problems = []nodestatus.Port{*port}, nil
	for _, found := range findings.Of(&nodestatus.Document{
		Source:   h.document.Source,
		Services: []nodestatus.Service{one},
	}) {
		about := found.Frontends == nil || slices.Contains(found.Frontends, f.At(port.Protocol))
		if found.Name != "" && about && slices.Contains(hintedReasons, found.Reason) {
			h.add("%s%s", found.Sentence(), answer.InParentheses(found.Field))
		}
	}
}

// localField returns the field with the policy of a kind of frontends; empty if the kind is
// not known.
func localField(kind string) string {
	switch kind {
	case "":
		return ""
	case model.KindClusterIP.String():
		return findings.FieldInternalLocal
	}
	return findings.FieldExternalLocal
}

func endpointText(e nodestatus.Endpoint) string {
	a, err := netip.ParseAddr(e.Address)
	if err != nil {
		return e.Address
	}
	text := netip.AddrPortFrom(a, e.Port).String()
	if e.Port == 0 {
		text = a.String()
	}
	if e.Node != "" {
		text += " on " + e.Node
	}
	return text
}

func reasonText(e nodestatus.Endpoint) string {
	text, ok := reasons[e.Reason]
	if !ok {
		return e.Reason
	}
	if len(e.ZoneHints) > 0 && e.Reason == "OtherZones" {
		text += " (" + strings.Join(e.ZoneHints, ", ") + ")"
	}
	return text
}

func (h *hinter) problems(list []nodestatus.Problem) {
	for _, p := range list {
		h.add("%s: %s: %s%s", p.Object, p.Reason, p.Text, answer.InParentheses(p.Field))
	}
}

// ofAddress adds what the address has, if it does not have the port.
func (h *hinter) ofAddress() {
	to := h.packet.To.Addr()
	for i := range h.document.Services {
		s := &h.document.Services[i]
		if ports := h.portsAt(s); len(ports) > 0 {
			h.add("%s is an address of %s/%s, which has %s there", to, s.Namespace, s.Name, strings.Join(ports, ", "))
		}
		h.nodePortOf(s)
		for _, p := range s.Problems {
			if mentions(p.Text, to) || h.Service == s.Namespace+"/"+s.Name {
				h.problems([]nodestatus.Problem{p})
			}
		}
	}
}

// mentions reports whether a text contains an address as a whole, with or without a port.
func mentions(text string, a netip.Addr) bool {
	words := strings.FieldsFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF.:[]", r) })
	return slices.ContainsFunc(words, func(word string) bool {
		if at, err := netip.ParseAddrPort(strings.TrimRight(word, ".:")); err == nil {
			return at.Addr() == a
		}
		word = strings.Trim(word, "[]")
		for _, w := range []string{word, strings.TrimRight(word, ".:")} {
			if named, err := netip.ParseAddr(w); err == nil && named == a {
				return true
			}
		}
		return false
	})
}

// portsAt returns the ports that a Service has at the address.
func (h *hinter) portsAt(s *nodestatus.Service) (ports []string) {
	for _, port := range s.Ports {
		for _, f := range port.Frontends {
			if f.Address != "" && h.at(f) {
				ports = append(ports, fmt.Sprintf("%d/%s", f.Port, strings.ToLower(port.Protocol)))
			}
		}
	}
	return ports
}
