package get

import (
	"slices"
	"strconv"
	"strings"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

func services(d *nodestatus.Document) []item {
	out := make([]item, len(d.Services))
	for i := range d.Services {
		s := &d.Services[i]
		out[i] = item{d: d, s: s, traffic: s.Traffic()}
	}
	return out
}

func endpoints(d *nodestatus.Document) (out []item) {
	for s, p := range d.EachPort() {
		share := p.SharePercents()
		for i := range p.Endpoints {
			e := &p.Endpoints[i]
			out = append(out, item{d: d, s: s, p: p, e: e, traffic: e.Traffic, share: share})
		}
	}
	return out
}

func frontends(d *nodestatus.Document) (out []item) {
	for s, p := range d.EachPort() {
		for i := range p.Frontends {
			f := &p.Frontends[i]
			out = append(out, item{d: d, s: s, p: p, f: f, traffic: f.Traffic})
		}
	}
	return out
}

func ofPorts(i *item, text func(*nodestatus.Port) string) string {
	var list []string
	for k := range i.s.Ports {
		if t := text(&i.s.Ports[k]); t != "" && !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return strings.Join(list, ",")
}

// ofFrontends returns a function that returns the distinct texts of a Service's frontends.
func ofFrontends(text func(*nodestatus.Frontend) string) func(*item) string {
	return func(i *item) string {
		var list []string
		for k := range i.s.Ports {
			for n := range i.s.Ports[k].Frontends {
				if t := text(&i.s.Ports[k].Frontends[n]); t != "" && !slices.Contains(list, t) {
					list = append(list, t)
				}
			}
		}
		return strings.Join(list, ",")
	}
}

var clusterIPKind = model.KindClusterIP.String()

func clusterIP(f *nodestatus.Frontend) string {
	if f.Kind != clusterIPKind {
		return ""
	}
	return f.Address
}

func portText(p *nodestatus.Port) string {
	var at, node uint16
	for k := range p.Frontends {
		if f := &p.Frontends[k]; f.Kind == model.KindNodePort.String() {
			node = f.Port
		} else {
			at = f.Port
		}
	}
	text := strconv.Itoa(int(at))
	switch {
	case at == 0 && node == 0:
		text = p.Name
	case node != 0:
		text += ":" + strconv.Itoa(int(node))
	}
	return text + "/" + p.Protocol
}

func affinity(p *nodestatus.Port) string {
	if p.AffinitySeconds == 0 {
		return ""
	}
	return strconv.Itoa(p.AffinitySeconds) + "s"
}

func state(i *item) string { return i.d.StateOf(i.s) }

func active(i *item) string { return strconv.Itoa(i.traffic.Active) }

func connections(i *item) string {
	switch {
	case !i.d.Counted:
		return "-"
	case i.traffic.Uncounted:
		return "?"
	}
	return strconv.FormatUint(i.traffic.Connections, 10)
}

// offloaded is how many connections are on the fast path, if it was asked for.
var offloaded = column{"FAST-PATH", func(i *item) string {
	if h := i.d.Health; h == nil || h.FastPath == nil {
		return ""
	}
	return strconv.Itoa(i.traffic.FastPath)
}}

// origin is the Service port of an object in JSON or YAML.
type origin struct {
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	PortName  string `json:"portName,omitempty"`
	Protocol  string `json:"protocol"`
	Family    string `json:"family"`
}

func originOf(i *item) origin {
	return origin{i.s.Namespace, i.s.Name, i.p.Name, i.p.Protocol, i.p.Family}
}

func servicePort(i *item) string {
	return strings.TrimSuffix(i.s.Name+":"+i.p.Name, ":")
}

func frontendName(i *item) string { return i.f.At(i.p.Protocol) }

func endpointName(i *item) string {
	if i.e.Port == 0 {
		return i.e.Address
	}
	return i.e.At() + "/" + strings.ToLower(i.p.Protocol)
}

func slot(i *item) string {
	if e := i.e; e.Slot == nil && e.LocalSlot != nil {
		return "local-" + number(e.LocalSlot)
	}
	return number(i.e.Slot)
}

// weight returns the weight of the endpoint's slice, which the kernel does not know.
func weight(i *item) string {
	switch e := i.e; {
	case i.d.Source == nodestatus.FromKernel || e.Conditions == nil:
		return unknown
	case e.Reason == model.ReasonDrained.String():
		return "0"
	default:
		return strconv.Itoa(max(e.Weight, 1))
	}
}

// why returns why the endpoint gets no connections, or what is wrong although it does.
func why(i *item) string {
	switch e := i.e; {
	case !e.Used():
	case e.Refused > 0:
		return "(refuses)"
	case e.Unresponsive != nil && !e.Unresponsive.Possibly:
		return strings.TrimSuffix("(unresponsive, "+e.Unresponsive.NotAvoided, ", ") + ")"
	case e.Unanswered > 0:
		return "(silent)"
	case e.Unresponsive != nil:
		return "(possibly unresponsive)"
	case e.SlowStart != "":
		return "(slow start, " + e.SlowStart + ")"
	case e.KnownConditions().Terminating && !e.KnownConditions().Ready:
		return "(fallback)"
	}
	return i.e.Reason
}

func fieldOf(i *item) string {
	if i.e.Used() && i.e.Refused > 0 {
		return nodestatus.FieldTargetPort
	}
	return nodestatus.FieldOf(i.s, i.e)
}

// observed returns a number that is known only if responses were observed.
func observed(i *item, n int) string {
	if i.d.ObservedSeconds == 0 {
		return unknown
	}
	return strconv.Itoa(n)
}

func number(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

func ready(i *item) string {
	if c := i.e.KnownConditions(); c.Terminating && !c.Ready {
		return "Terminating"
	}
	return condition(i, i.e.KnownConditions().Ready)
}

// condition returns a condition, which the kernel does not know.
func condition(i *item, yes bool) string {
	switch {
	case i.d.Source == nodestatus.FromKernel:
		return unknown
	case yes:
		return "True"
	}
	return "False"
}

// behind returns the number of endpoints that the frontend's policy leaves.
func behind(i *item) string {
	n := 0
	for k := range i.p.Endpoints {
		e := &i.p.Endpoints[k]
		if i.f.Policy == "Local" && e.LocalSlot != nil || i.f.Policy != "Local" && e.Slot != nil {
			n++
		}
	}
	return strconv.Itoa(n)
}
