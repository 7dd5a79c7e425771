package answer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate/path"
)

func (a *Answer) addHints(d *nodestatus.Document) {
	h := hinter{Answer: a, to: AddrPort(a.To), document: d}
	if !d.Ready {
		h.add("kube-vmap has not programmed everything yet")
	}
	service, port, frontend := h.service()
	if port != nil && a.Service == "" {
		text := "has this address and port, but the kernel's tables do not"
		if h.isRelayed() {
			text = "has this node port: while it has endpoints, kube-vmap itself accepts connections here, and makes one " +
				"from this node to the node port at another address, or to the ClusterIP"
		}
		if frontend.Verdict == nodestatus.VerdictElsewhere {
			text = "has this address and port, but not on " + h.here()
		}
		h.add("%s/%s %s", service.Namespace, service.Name, text)
		a.Service = service.Namespace + "/" + service.Name
	}
	switch {
	case port == nil:
		h.ofAddress()
	case frontend.Restricted && h.Likeliest().Reason == path.ReasonSourceRanges:
		who := "no address of this family"
		if len(frontend.Sources) > 0 {
			who = "only " + strings.Join(frontend.Sources, ", ")
		}
		h.add("%s may connect (%s)", who, nodestatus.FieldSourceRanges)
		h.problems(service.Problems)
	default:
		h.connections(service, port)
		h.findings(service, port, frontend)
		h.problems(service.Problems)
		h.problems(service.Contested)
	}
	h.fastPath()
}

// ServiceAt returns the Service of a document that has the destination of the packet; nil if none
// has.
func (a *Answer) ServiceAt(d *nodestatus.Document) *nodestatus.Service {
	s, _, _ := (&hinter{Answer: a, to: AddrPort(a.To), document: d}).find()
	return s
}

// Concerns reports whether a Service has the address or the node port of the packet, or a problem
// with the address. Hints are about no other Service.
func (a *Answer) Concerns(d *nodestatus.Document, s *nodestatus.Service) bool {
	h := hinter{Answer: a, to: AddrPort(a.To), document: d}
	for i := range s.Ports {
		if slices.ContainsFunc(s.Ports[i].Frontends, func(f nodestatus.Frontend) bool {
			return f.Address == "" && f.Port == h.to.Port() || f.Address != "" && h.at(&f)
		}) {
			return true
		}
	}
	return slices.ContainsFunc(s.Problems, func(p nodestatus.Problem) bool { return concerns(&p, h.to.Addr()) })
}

type hinter struct {
	*Answer

	to       netip.AddrPort
	document *nodestatus.Document
}

func (h *hinter) family() model.Family { return model.FamilyOf(h.to.Addr()) }

func (h *hinter) add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(h.Hints, text) {
		h.Hints = append(h.Hints, text)
	}
}

func (h *hinter) hasProtocol(port *nodestatus.Port) bool {
	return strings.EqualFold(port.Protocol, h.Protocol) && port.Family == h.family().String()
}

// at reports whether the packet is for the frontend's address; for node ports, an address
// of the node.
func (h *hinter) at(f *nodestatus.Frontend) bool {
	to := h.to.Addr().String()
	if f.Address == "" {
		return slices.Contains(h.document.NodeAddresses, to) || h.isRelayed()
	}
	return f.Address == to
}

// isRelayed reports whether kube-vmap serves node ports at the destination, without rules.
func (h *hinter) isRelayed() bool {
	health := h.document.Health
	return health != nil && h.Protocol == model.TCP.String() && slices.Contains(health.Localhost, h.to.Addr().String())
}

// find finds the Service port and frontend that the packet is for; nil if there is none.
func (h *hinter) find() (*nodestatus.Service, *nodestatus.Port, *nodestatus.Frontend) {
	for s, p := range h.document.EachPort() {
		for k := range p.Frontends {
			if f := &p.Frontends[k]; f.Port == h.to.Port() && h.hasProtocol(p) && h.at(f) {
				return s, p, f
			}
		}
	}
	return nil, nil, nil
}

// service finds these, and sets the kind of the address. The tables do not have the kind of all
// frontends, nor the fields that follow from it.
func (h *hinter) service() (*nodestatus.Service, *nodestatus.Port, *nodestatus.Frontend) {
	s, p, f := h.find()
	if f != nil {
		h.Kind = f.Kind
		for n := range h.Outcomes {
			o := &h.Outcomes[n]
			o.Field = cmp.Or(becauseField(o.Reason, f.Kind), o.Field)
		}
	}
	return s, p, f
}

// connections adds to open connections why no new one would go to their endpoint.
func (h *hinter) connections(s *nodestatus.Service, port *nodestatus.Port) {
	explain := func(c *Connection) (listed bool) {
		i := slices.IndexFunc(port.Endpoints, func(e nodestatus.Endpoint) bool {
			return e.At() == c.Endpoint && e.Reason != nodestatus.ReasonGone
		})
		switch {
		case !c.Stale:
		case i < 0 && c.Endpoint == h.to.String():
			c.Because = "it began before this address was programmed, and is not translated"
		case i < 0:
			c.Reason, c.Because = nodestatus.ReasonGone, "no EndpointSlice names the endpoint now"
		case port.Endpoints[i].Reason != "":
			e := &port.Endpoints[i]
			c.Reason, c.Because, c.Field = e.Reason, e.Reason, nodestatus.FieldOf(s, e)
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
	forwards := func(o path.Outcome) bool {
		return o.Verdict == path.VerdictDelivered && slices.ContainsFunc(o.Endpoints,
			func(e path.Endpoint) bool { return !e.Node })
	}
	if h.document.IsFastPathOn() && h.Interface != "" && h.Protocol != model.SCTP.String() &&
		slices.ContainsFunc(h.Outcomes, forwards) {
		h.add("the fast path is on: after %d packets of a connection, the next ones pass no rules of %s, "+
			"except fragments, those that end it, and those between pods of one bridge",
			h.document.Health.FastPath.AfterPackets, h.here())
	}
}

func (h *hinter) findings(s *nodestatus.Service, port *nodestatus.Port, f *nodestatus.Frontend) {
	d, one := *h.document, *s
	here := *port
	here.Frontends = []nodestatus.Frontend{*f} // findings list only some of many
	one.Ports, one.Problems = []nodestatus.Port{here}, nil
	d.Services = []nodestatus.Service{one}
	for _, found := range findings.Of(&d) {
		if found.Name != "" {
			h.add("%s%s", found.SentenceAt(h.here()), inParentheses(found.Field))
		}
	}
}

func (h *hinter) problems(list []nodestatus.Problem) {
	for _, p := range list {
		h.add("%s: %s: %s%s", p.Object, p.Reason, p.Text, inParentheses(p.Field))
	}
}

// ofAddress adds what the address has, if it does not have the port.
func (h *hinter) ofAddress() {
	to := h.to.Addr()
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
		return err != nil || model.FamilyOf(a) != h.family()
	})
	where := cmp.Or(strings.Join(at, ", "), "no address of this family")
	if to := h.to.Addr().String(); !slices.Contains(at, to) {
		where += "; " + to + " serves no node ports"
	}
	var ports []*nodestatus.Port
	for i := range s.Ports {
		port := &s.Ports[i]
		has := func(f nodestatus.Frontend) bool { return f.Address == "" && f.Port == h.to.Port() }
		if port.Family == h.family().String() && slices.ContainsFunc(port.Frontends, has) {
			ports = append(ports, port)
		}
	}
	if i := slices.IndexFunc(ports, h.hasProtocol); i >= 0 {
		ports = ports[i : i+1] // the others do not matter
	}
	for _, p := range ports {
		h.add("%d/%s is the node port of %s/%s, and is served at %s", h.to.Port(), strings.ToLower(p.Protocol),
			s.Namespace, s.Name, where)
	}
}

// locate sets Elsewhere if the client is on another node. d is from the running process,
// nil if it does not answer. Each node translates the connections of its own pods and
// programs, so the rules of this one are not the first for such a packet.
//
// The kernel's routes show that: to a pod of this node they lead over a link, without a
// next hop. An address on a link outside the ranges of pods is another host.
func (a *Answer) locate(d *nodestatus.Document) {
	if a.Interface == "" || a.ToNode && (a.Service == "" || a.Kind == model.KindNodePort.String()) {
		return // this node sends the packet, or no other node translates it
	}
	from, isLinked := a.client(), a.Via == ""
	inRange, known := isPod(d, from)
	nodes := endpointNodes(d)
	e := &Elsewhere{Node: nodes[from.String()], Pod: inRange && !isLinked, Via: a.Via}
	switch {
	case e.Node != "" && e.Node == d.Node:
		return
	case e.Node != "":
		e.Pod = true
	case isLinked && (inRange || !known):
		return
	}
	command := fmt.Sprintf("explain --from '%s' --to '%s/%s'", a.From, a.To, a.Protocol)
	e.Ask = []string{"kubectl vmap " + command, "kube-vmap " + command}
	a.Elsewhere = e
	if d != nil {
		a.bypassReplies(from, d.Node, nodes)
	}
	if e.Pod && a.Service != "" && a.Connection == nil && len(a.Connections) == 0 {
		a.Arrives = Unknown
	}
}

// bypassReplies corrects replies from endpoints on other nodes to a client that is not on this
// node either, and keeps its address. Neither has a reason to send to the other by way of this
// node, also where its routes do not show it: to pods of other nodes by a tunnel, to the client
// by its own link.
func (a *Answer) bypassReplies(from netip.Addr, thisNode string, nodes map[string]string) {
	changed := false
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		for j := range o.Endpoints {
			e := &o.Endpoints[j]
			if e.Sees != from || e.Node || e.Reply.Verdict == "" || e.Reply.Bypasses {
				continue
			}
			if node := nodes[e.Address.String()]; node != "" && node != thisNode {
				bypassThisNode(e, a.To)
				changed = true
			}
		}
	}
	if changed {
		a.Arrives = a.Arrival()
	}
}

func isPod(d *nodestatus.Document, a netip.Addr) (is, known bool) {
	if d == nil {
		return false, false
	}
	for _, text := range d.PodRanges {
		if r, err := netip.ParsePrefix(text); err == nil && model.FamilyOf(r.Addr()) == model.FamilyOf(a) {
			is, known = is || r.Contains(a), true
		}
	}
	return is, known
}

// endpointNodes returns the nodes of addresses; a port that was removed has none.
func endpointNodes(d *nodestatus.Document) map[string]string {
	nodes := map[string]string{}
	for _, port := range d.EachPort() {
		for _, e := range port.Endpoints {
			nodes[e.Address] = cmp.Or(nodes[e.Address], e.Node)
		}
	}
	return nodes
}

// Addr returns the address that a text of an answer is, invalid if it is none.
func Addr(text string) netip.Addr {
	a, _ := netip.ParseAddr(text)
	return a
}

// AddrPort returns the address and port that a text of an answer is, invalid if it is none.
func AddrPort(text string) netip.AddrPort {
	a, _ := netip.ParseAddrPort(text)
	return a
}
