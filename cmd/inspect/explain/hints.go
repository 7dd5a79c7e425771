package explain

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate"
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
		a.Process = err.Error() + ". So this is what the kernel's tables hold, and nothing of the " +
			"objects behind them; kube-vmap diff --manifests compares both"
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
	case frontend.Restricted && h.Likeliest().Reason == string(simulate.ReasonSourceRanges):
		who := "no address of this family"
		if len(frontend.Sources) > 0 {
			who = "only " + strings.Join(frontend.Sources, ", ")
		}
		h.add("%s may connect (%s)", who, findings.FieldSourceRanges)
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

func (h *hinter) hasProtocol(port *nodestatus.Port) bool {
	return strings.EqualFold(port.Protocol, h.packet.Protocol.String()) && port.Family == h.packet.Family().String()
}

// at reports whether the packet is for the frontend's address; for node ports, an address
// of the node.
func (h *hinter) at(f *nodestatus.Frontend) bool {
	to := h.packet.To.Addr().String()
	if f.Address == "" {
		return slices.Contains(h.document.NodeAddresses, to)
	}
	return f.Address == to
}

// service finds the Service port and frontend that the packet is for; nil if there is
// none. The tables do not have the kind of all frontends, nor the fields that follow from it.
func (h *hinter) service() (*nodestatus.Service, *nodestatus.Port, *nodestatus.Frontend) {
	for s, p := range h.document.EachPort() {
		for k := range p.Frontends {
			f := &p.Frontends[k]
			if f.Port != h.packet.To.Port() || !h.hasProtocol(p) || !h.at(f) {
				continue
			}
			h.Kind = f.Kind
			for n := range h.Outcomes {
				o := &h.Outcomes[n]
				o.Field = cmp.Or(becauseField(simulate.Reason(o.Reason), f.Kind), o.Field)
			}
			return s, p, f
		}
	}
	return nil, nil, nil
}

func (h *hinter) ofPort(s *nodestatus.Service, port *nodestatus.Port, f *nodestatus.Frontend) {
	h.connections(s, port)
	h.findings(s, port, f)
	h.problems(s.Problems)
	h.problems(s.Contested)
}

// connections adds to open connections why no new one would go to their endpoint.
func (h *hinter) connections(s *nodestatus.Service, port *nodestatus.Port) {
	explain := func(c *answer.Connection) (listed bool) {
		i := slices.IndexFunc(port.Endpoints, func(e nodestatus.Endpoint) bool {
			return e.At() == c.Endpoint && e.Reason != nodestatus.ReasonGone
		})
		switch {
		case !c.Stale:
		case i < 0 && c.Endpoint == h.packet.To.String():
			c.Because = "it began before this address was programmed, and is not translated"
		case i < 0:
			c.Reason, c.Because = nodestatus.ReasonGone, "no EndpointSlice names the endpoint any more"
		case port.Endpoints[i].Reason != "":
			e := &port.Endpoints[i]
			c.Reason, c.Because, c.Field = e.Reason, e.Reason, findings.FieldOf(s, e)
		}
		return i >= 0
	}
	if h.Connection != nil {
		if h.Connection.Listed = explain(h.Connection); h.Connection.Listed {
			h.Arrives = h.Arrival()
		}
	}
	for i := range h.Connections {
		explain(&h.Connections[i])
	}
}

// fastPath adds that later packets pass no rules, if this node forwards them: flowtables take
// neither packets from nor to programs of the node, nor SCTP.
func (h *hinter) fastPath() {
	forwards := func(o answer.Outcome) bool {
		return o.Verdict == answer.VerdictDelivered && slices.ContainsFunc(o.Endpoints,
			func(e answer.Endpoint) bool { return !e.Node })
	}
	if h.document.IsFastPathOn() && h.Interface != "" && h.packet.Protocol != model.SCTP &&
		slices.ContainsFunc(h.Outcomes, forwards) {
		h.add("the fast path is on: after %d packets of a connection, the next ones pass no rules of this node, "+
			"except fragments, those that end it, and those between pods of one bridge",
			h.document.Health.FastPath.AfterPackets)
	}
}

// findings adds what is found about the port and address.
func (h *hinter) findings(s *nodestatus.Service, port *nodestatus.Port, f *nodestatus.Frontend) {
	d, one := *h.document, *s
	here := *port
	here.Frontends = []nodestatus.Frontend{*f} // findings list only some of many
	one.Ports, one.Problems = []nodestatus.Port{here}, nil
	d.Services = []nodestatus.Service{one}
	for _, found := range findings.Of(&d) {
		if found.Name != "" {
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
		var ports []string
		for j := range s.Ports {
			for k := range s.Ports[j].Frontends {
				if f := &s.Ports[j].Frontends[k]; f.Address != "" && h.at(f) {
					ports = append(ports, fmt.Sprintf("%d/%s", f.Port, strings.ToLower(s.Ports[j].Protocol)))
				}
			}
		}
		if len(ports) > 0 {
			h.add("%s is an address of %s/%s, which has %s there", to, s.Namespace, s.Name, strings.Join(ports, ", "))
		}
		h.nodePortOf(s)
		for _, p := range s.Problems {
			if concerns(&p, to) || h.Service == s.Namespace+"/"+s.Name {
				h.problems([]nodestatus.Problem{p})
			}
		}
	}
}

// concerns reports whether a problem is about an address: addresses and ports that another Service
// holds are the problem's names.
func concerns(p *nodestatus.Problem, a netip.Addr) bool {
	return p.Reason == model.ProblemConflict && slices.ContainsFunc(p.Names, func(name string) bool {
		at, _, _ := strings.Cut(name, "/")
		held, err := netip.ParseAddrPort(at)
		return err == nil && held.Addr() == a
	})
}

// nodePortOf adds where a node port is served, or over what, if not as requested.
func (h *hinter) nodePortOf(s *nodestatus.Service) {
	at := slices.DeleteFunc(slices.Clone(h.document.NodeAddresses), func(text string) bool {
		a, err := netip.ParseAddr(text)
		return err != nil || model.FamilyOf(a) != h.packet.Family()
	})
	where := cmp.Or(strings.Join(at, ", "), "no address of this family")
	if to := h.packet.To.Addr().String(); !slices.Contains(at, to) {
		where += "; " + to + " serves no node ports"
	}
	var ports []*nodestatus.Port
	for i := range s.Ports {
		port := &s.Ports[i]
		has := func(f nodestatus.Frontend) bool { return f.Address == "" && f.Port == h.packet.To.Port() }
		if port.Family == h.packet.Family().String() && slices.ContainsFunc(port.Frontends, has) {
			ports = append(ports, port)
		}
	}
	if i := slices.IndexFunc(ports, h.hasProtocol); i >= 0 {
		ports = ports[i : i+1] // the others do not matter
	}
	for _, p := range ports {
		h.add("%d/%s is the node port of %s/%s, and is served at %s", h.packet.To.Port(), strings.ToLower(p.Protocol),
			s.Namespace, s.Name, where)
	}
}
