package explain

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/nft/simulate"
)

// Ask gets what a running process knows.
type Ask func(ctx context.Context, q status.Query) (*status.Document, error)

// addHints adds what the running process knows about the packet, if one answers. It
// returns the document about that; nil if there is none.
func (a *Answer) addHints(ctx context.Context, ask Ask, p simulate.Packet) *status.Document {
	d, err := ask(ctx, a.query())
	if err != nil {
		a.Process = err.Error()
		const only = ", so this is what the kernel's tables hold, and nothing of the objects behind them"
		switch {
		case errors.Is(err, status.ErrNoSocket):
			a.Process = "no kube-vmap was asked, for --status-socket is empty" + only
		case errors.Is(err, status.ErrNotRunning):
			a.Process = "no kube-vmap answers here" + only + "; kube-vmap diff --manifests tells whether they are as objects want them"
		case errors.Is(err, status.ErrUnresponsive):
			a.Process += only
		}
		return nil
	}
	a.Process = "answers"
	h := hinter{Answer: a, packet: p, document: d}
	if !d.Ready {
		h.add("kube-vmap has not programmed everything yet")
	}
	service, port, asked := h.service()
	if port != nil && a.Service == "" {
		h.add("%s/%s has this address and port, but the kernel's tables do not", service.Namespace, service.Name)
		a.Service = service.Namespace + "/" + service.Name
		if d, err = ask(ctx, a.query()); err != nil {
			return nil
		}
		h.document = d
		service, port, asked = h.service()
	}
	switch {
	case port == nil:
		h.ofAddress()
	case h.barred(asked):
		h.problems(service.Problems)
	default:
		h.ofPort(service, port)
	}
	return d
}

// query asks for the Service with its endpoints, or briefly for all if it is none.
func (a *Answer) query() status.Query {
	namespace, rest, ok := strings.Cut(a.Service, "/")
	if !ok {
		return status.Query{Brief: true}
	}
	name, _, _ := strings.Cut(rest, ":")
	return status.Query{Namespace: namespace, Name: name}
}

type hinter struct {
	*Answer
	packet   simulate.Packet
	document *status.Document
}

func (h *hinter) add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(h.Hints, text) {
		h.Hints = append(h.Hints, text)
	}
}

// asked reports whether the frontend is what the packet asks for.
func (h *hinter) asked(port *status.Port, f status.Frontend) bool {
	return f.Port == h.packet.To.Port() && h.speaks(port) && h.at(f)
}

func (h *hinter) speaks(port *status.Port) bool {
	return strings.EqualFold(port.Protocol, h.packet.Protocol.String()) && port.Family == h.packet.Family().String()
}

// at reports whether the packet asks at the frontend's address. Node ports have those
// of the node.
func (h *hinter) at(f status.Frontend) bool {
	to := h.packet.To.Addr().String()
	if f.Address == "" {
		return slices.Contains(h.document.NodeAddresses, to)
	}
	return f.Address == to
}

// service finds the port of the Service that the packet asks for, and by which of its
// frontends; nil if there is none.
func (h *hinter) service() (*status.Service, *status.Port, status.Frontend) {
	for i := range h.document.Services {
		s := &h.document.Services[i]
		for j := range s.Ports {
			for _, f := range s.Ports[j].Frontends {
				if h.asked(&s.Ports[j], f) {
					h.Kind = f.Kind
					return s, &s.Ports[j], f
				}
			}
		}
	}
	return nil, nil, status.Frontend{}
}

// barred says who may come, if the packet may not.
func (h *hinter) barred(f status.Frontend) bool {
	o := h.likeliest()
	if !f.Restricted || o.verdict != simulate.VerdictDropped || o.By == nil || o.By.Chain != "source-check" {
		return false
	}
	if len(f.Sources) == 0 {
		h.add("no address of this family may come (loadBalancerSourceRanges)")
	} else {
		h.add("only %s may come (loadBalancerSourceRanges)", strings.Join(f.Sources, ", "))
	}
	return true
}

// mostEndpoints is how many endpoints without connections are named.
const mostEndpoints = 10

// reasons are in words why endpoints get no connections.
var reasons = map[string]string{
	"NotReady":      "it is not ready",
	"Terminating":   "it terminates, while others are ready",
	"NotLocal":      "it is on another node, and the policy is Local",
	"OtherZones":    "its topology hints are for other zones",
	"OtherNodes":    "its topology hints are for other nodes",
	"NoPort":        "its EndpointSlice does not have the port",
	"Duplicate":     "another entry for the same address counts",
	"NotProgrammed": "it is not programmed",
}

// onlyElsewhere reports whether kube-vmap dropped the packet because the policy leaves no
// endpoint on this node, and for no other reason.
func (h *hinter) onlyElsewhere() bool { return h.likeliest().Because == simulate.ReasonNoLocalEndpoint }

// ofPort says what is known about the port of the Service.
func (h *hinter) ofPort(s *status.Service, port *status.Port) {
	unused, used := 0, 0
	elsewhere := h.onlyElsewhere()
	for _, e := range port.Endpoints {
		if e.Reason == "" && !(elsewhere && e.LocalSlot == nil) {
			used++
			continue
		}
		if e.Reason == "" {
			e.Reason = "NotLocal"
		}
		if unused++; unused <= mostEndpoints {
			h.add("%s gets no connections: %s", endpointText(e), reasonText(e))
		}
	}
	if unused > mostEndpoints {
		h.add("and %d more endpoints get no connections", unused-mostEndpoints)
	}
	if used+unused == 0 {
		h.add("no EndpointSlice names an endpoint for this port: does the selector of the Service match pods?")
	}
	h.problems(s.Problems)
	h.problems(s.Contested)
}

func endpointText(e status.Endpoint) string {
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

func reasonText(e status.Endpoint) string {
	text, ok := reasons[e.Reason]
	if !ok {
		return e.Reason
	}
	if len(e.ZoneHints) > 0 && e.Reason == "OtherZones" {
		text += " (" + strings.Join(e.ZoneHints, ", ") + ")"
	}
	return text
}

func (h *hinter) problems(list []status.Problem) {
	for _, p := range list {
		h.add("%s: %s: %s", p.Object, p.Reason, p.Text)
	}
}

// ofAddress says what the address does have, where it does not have the port.
func (h *hinter) ofAddress() {
	to := h.packet.To.Addr()
	for i := range h.document.Services {
		s := &h.document.Services[i]
		if ports := h.portsAt(s); len(ports) > 0 {
			h.add("%s is an address of %s/%s, which has %s there", to, s.Namespace, s.Name, strings.Join(ports, ", "))
		}
		h.nodePortOf(s)
		for _, p := range s.Problems {
			if names(p.Text, to) || h.Service == s.Namespace+"/"+s.Name {
				h.problems([]status.Problem{p})
			}
		}
	}
}

// names reports whether a text names an address, whole, alone or with a port.
func names(text string, a netip.Addr) bool {
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

// portsAt are the ports that a Service has at the address.
func (h *hinter) portsAt(s *status.Service) (ports []string) {
	for _, port := range s.Ports {
		for _, f := range port.Frontends {
			if f.Address != "" && h.at(f) {
				ports = append(ports, fmt.Sprintf("%d/%s", f.Port, strings.ToLower(port.Protocol)))
			}
		}
	}
	return ports
}
