package get

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// A resource describes a type of rows as data: what the tables, JSON and selectors have of an item.
type resource struct {
	singular, plural, short string

	items   func(*nodestatus.Document) []item
	name    func(*item) string
	columns []column
	fields  []field         // for --field-selector
	object  func(*item) any // for JSON and YAML
}

// An item is a Service; or one of its endpoints or frontends, at a port.
type item struct {
	document *nodestatus.Document
	service  *nodestatus.Service
	port     *nodestatus.Port
	endpoint *nodestatus.Endpoint
	frontend *nodestatus.Frontend
	traffic  nodestatus.Traffic
	// share returns an endpoint's part of the new connections.
	share func(*nodestatus.Endpoint) (percent float64, uneven bool)
}

// A column is one of a table. An empty text is printed as <none>.
type column struct {
	title string
	text  func(*item) string
	wide  bool // with -o wide only
}

const (
	none    = "<none>"    // replaces empty values
	unknown = "<unknown>" // replaces what a document from the kernel does not have
)

// resources are all resources.
var resources = []resource{
	{
		singular: "service", plural: "services", short: "svc",
		items: services,
		name:  func(i *item) string { return i.service.Name },
		columns: []column{
			{title: "NAME", text: func(i *item) string { return i.service.Name }},
			{title: "KINDS", text: ofFrontends(func(f *nodestatus.Frontend) string { return f.Kind })},
			{title: "CLUSTER-IP", text: ofFrontends(clusterIP)},
			{title: "PORT(S)", text: func(i *item) string { return ofPorts(i, portText) }},
			{title: "ENDPOINTS", text: func(i *item) string { return i.document.EndpointText(i.service) }},
			{title: "CONNECTIONS", text: connections},
			{title: "ACTIVE", text: active},
			{title: "STATUS", text: state},
			{title: "FAST-PATH", text: fastPath, wide: true},
			{title: "EXTERNAL", wide: true, text: ofFrontends(func(f *nodestatus.Frontend) string {
				if f.Kind == clusterIPKind {
					return ""
				}
				return f.Address
			})},
			{title: "POLICY", text: ofFrontends(func(f *nodestatus.Frontend) string { return f.Policy }), wide: true},
			{title: "SCHEDULER", wide: true, text: func(i *item) string {
				return ofPorts(i, func(p *nodestatus.Port) string { return p.Scheduler })
			}},
			{title: "AFFINITY", text: func(i *item) string { return ofPorts(i, affinity) }, wide: true},
			{title: "PROBLEM", text: func(i *item) string { return i.service.FirstProblem() }, wide: true},
		},
		fields: []field{
			{"metadata.name", func(i *item) string { return i.service.Name }, nil},
			{"metadata.namespace", func(i *item) string { return i.service.Namespace }, nil},
			{"spec.clusterIP", func(i *item) string {
				first, _, _ := strings.Cut(ofFrontends(clusterIP)(i), ",")
				return first
			}, address},
			{"status", state, one(nodestatus.States()...)},
			{"severity", func(i *item) string { return i.service.Severity() }, one(nodestatus.Severities()...)},
		},
		object: func(i *item) any {
			return struct {
				nodestatus.Service `json:",inline"`
				Status             string `json:"status"`
				Severity           string `json:"severity"`
			}{*i.service, state(i), i.service.Severity()}
		},
	},
	{
		singular: "endpoint", plural: "endpoints", short: "ep",
		items: func(d *nodestatus.Document) []item {
			return ofEachPort(d, func(at item) (out []item) {
				at.share = at.port.SharePercents()
				for i := range at.port.Endpoints {
					at.endpoint = &at.port.Endpoints[i]
					at.traffic = at.endpoint.Traffic
					out = append(out, at)
				}
				return out
			})
		},
		name: endpointName,
		columns: []column{
			{title: "ADDRESS", text: endpointName},
			{title: "SERVICE", text: servicePort},
			{title: "SLOT", text: slot},
			{title: "NODE", text: func(i *item) string { return i.endpoint.Node }},
			{title: "READY", text: ready},
			{title: "REASON", text: why},
			{title: "CONNECTIONS", text: connections},
			{title: "ACTIVE", text: active},
			{title: "FAST-PATH", text: fastPath, wide: true},
			{title: "WEIGHT", text: weight, wide: true},
			{title: "SHARE", wide: true, text: func(i *item) string {
				if percent, uneven := i.share(i.endpoint); uneven {
					return fmt.Sprintf("%.3g%%", percent)
				}
				return ""
			}},
			{title: "LOCAL-SLOT", text: func(i *item) string { return number(i.endpoint.LocalSlot) }, wide: true},
			{title: "SERVING", wide: true, text: func(i *item) string {
				return condition(i, i.endpoint.KnownConditions().Serving)
			}},
			{title: "TERMINATING", wide: true, text: func(i *item) string {
				return condition(i, i.endpoint.KnownConditions().Terminating)
			}},
			{title: "ZONE-HINTS", text: func(i *item) string { return strings.Join(i.endpoint.ZoneHints, ",") }, wide: true},
			{title: "NODE-HINTS", text: func(i *item) string { return strings.Join(i.endpoint.NodeHints, ",") }, wide: true},
			{title: "REFUSED", text: func(i *item) string { return observed(i, i.endpoint.Refused) }, wide: true},
			{title: "UNANSWERED", text: func(i *item) string { return observed(i, i.endpoint.Unanswered) }, wide: true},
			{title: "FIELD", text: fieldOf, wide: true},
		},
		fields: portFields(
			field{"spec.address", func(i *item) string { return i.endpoint.Address }, address},
			field{"spec.port", func(i *item) string { return strconv.Itoa(int(i.endpoint.Port)) }, portNumber},
			field{"spec.node", func(i *item) string { return i.endpoint.Node }, nil},
			field{"status.ready", func(i *item) string {
				return strconv.FormatBool(i.endpoint.KnownConditions().Ready)
			}, one("true", "false")},
			field{"status.used", func(i *item) string {
				return strconv.FormatBool(i.endpoint.Used())
			}, one("true", "false")},
			field{"status.reason", func(i *item) string {
				return i.endpoint.Reason
			}, one(append(nodestatus.Reasons(), "")...)},
		),
		object: func(i *item) any {
			return struct {
				origin              `json:",inline"`
				nodestatus.Endpoint `json:",inline"`
				Field               string `json:"field,omitempty"`
			}{originOf(i), *i.endpoint, fieldOf(i)}
		},
	},
	{
		singular: "frontend", plural: "frontends", short: "fe",
		items: func(d *nodestatus.Document) []item {
			return ofEachPort(d, func(at item) (out []item) {
				for i := range at.port.Frontends {
					at.frontend = &at.port.Frontends[i]
					at.traffic = at.frontend.Traffic
					out = append(out, at)
				}
				return out
			})
		},
		name: frontendName,
		columns: []column{
			{title: "ADDRESS", text: frontendName},
			{title: "KIND", text: func(i *item) string { return i.frontend.Kind }},
			{title: "SERVICE", text: servicePort},
			{title: "POLICY", text: func(i *item) string { return orUnknown(i.frontend.Policy) }},
			{title: "MASQUERADE", text: func(i *item) string { return orUnknown(i.frontend.Masquerade) }},
			{title: "VERDICT", text: func(i *item) string { return i.frontend.Verdict }},
			{title: "CONNECTIONS", text: connections},
			{title: "ACTIVE", text: active},
			{title: "FAST-PATH", text: fastPath, wide: true},
			{title: "FAMILY", text: func(i *item) string { return i.port.Family }, wide: true},
			{title: "SCHEDULER", text: func(i *item) string { return i.port.Scheduler }, wide: true},
			{title: "AFFINITY", text: func(i *item) string { return affinity(i.port) }, wide: true},
			{title: "ENDPOINTS", text: behind, wide: true},
			{title: "SOURCES", wide: true, text: func(i *item) string {
				if !i.frontend.Restricted {
					return "<any>"
				}
				return strings.Join(i.frontend.Sources, ",")
			}},
		},
		fields: portFields(
			field{"spec.address", func(i *item) string { return i.frontend.Address }, address},
			field{"spec.port", func(i *item) string { return strconv.Itoa(int(i.frontend.Port)) }, portNumber},
			field{"spec.kind", func(i *item) string { return i.frontend.Kind }, one(nodestatus.Kinds()...)},
			field{"spec.policy", func(i *item) string {
				return i.frontend.Policy
			}, one(append(nodestatus.Policies(), "")...)},
			field{"spec.masquerade", func(i *item) string {
				return i.frontend.Masquerade
			}, one(append(nodestatus.Masquerades(), "")...)},
			field{"spec.verdict", func(i *item) string { return i.frontend.Verdict }, one(nodestatus.Verdicts()...)},
		),
		object: func(i *item) any {
			return struct {
				origin              `json:",inline"`
				nodestatus.Frontend `json:",inline"`
			}{originOf(i), *i.frontend}
		},
	},
}

// portFields returns more with the fields that every row of a port has.
func portFields(more ...field) []field {
	return append([]field{
		{"metadata.name", func(i *item) string { return i.service.Name }, nil},
		{"metadata.namespace", func(i *item) string { return i.service.Namespace }, nil},
		{"spec.portName", func(i *item) string { return i.port.Name }, nil},
		{"spec.protocol", func(i *item) string { return i.port.Protocol }, one(protocols()...)},
		{"spec.family", func(i *item) string { return i.port.Family }, one(families()...)},
	}, more...)
}

func services(d *nodestatus.Document) []item {
	out := make([]item, len(d.Services))
	for i := range d.Services {
		s := &d.Services[i]
		out[i] = item{document: d, service: s, traffic: s.Traffic()}
	}
	return out
}

// ofEachPort returns the items of all ports of a document.
func ofEachPort(d *nodestatus.Document, list func(item) []item) (out []item) {
	for i := range d.Services {
		s := &d.Services[i]
		for k := range s.Ports {
			out = append(out, list(item{document: d, service: s, port: &s.Ports[k]})...)
		}
	}
	return out
}

// ofPorts returns the distinct texts of a Service's ports.
func ofPorts(i *item, text func(*nodestatus.Port) string) string {
	var list []string
	for k := range i.service.Ports {
		if t := text(&i.service.Ports[k]); t != "" && !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return strings.Join(list, ",")
}

// ofFrontends returns a function that returns the distinct texts of a Service's frontends.
func ofFrontends(text func(*nodestatus.Frontend) string) func(*item) string {
	return func(i *item) string {
		var list []string
		for k := range i.service.Ports {
			for n := range i.service.Ports[k].Frontends {
				if t := text(&i.service.Ports[k].Frontends[n]); t != "" && !slices.Contains(list, t) {
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

// portText returns a port as kubectl prints it.
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

// affinity returns the timeout of session affinity.
func affinity(p *nodestatus.Port) string {
	if p.AffinitySeconds == 0 {
		return ""
	}
	return strconv.Itoa(p.AffinitySeconds) + "s"
}

func state(i *item) string { return i.document.StateOf(i.service) }

func active(i *item) string { return strconv.Itoa(i.traffic.Active) }

// connections returns the total, if it is counted.
func connections(i *item) string {
	switch {
	case !i.document.Counted:
		return "-"
	case i.traffic.Uncounted:
		return "?"
	}
	return strconv.FormatUint(i.traffic.Connections, 10)
}

// fastPath returns how many connections are on the fast path, if it was asked for.
func fastPath(i *item) string {
	if h := i.document.Health; h == nil || h.FastPath == nil {
		return ""
	}
	return strconv.Itoa(i.traffic.FastPath)
}

// origin is the Service port of an object in JSON or YAML.
type origin struct {
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	PortName  string `json:"portName,omitempty"`
	Protocol  string `json:"protocol"`
	Family    string `json:"family"`
}

func originOf(i *item) origin {
	return origin{i.service.Namespace, i.service.Name, i.port.Name, i.port.Protocol, i.port.Family}
}

// servicePort returns the name of a Service port: "web:http".
func servicePort(i *item) string {
	return strings.TrimSuffix(i.service.Name+":"+i.port.Name, ":")
}

func frontendName(i *item) string { return i.frontend.At(i.port.Protocol) }

func endpointName(i *item) string {
	if i.endpoint.Port == 0 {
		return i.endpoint.Address
	}
	return i.endpoint.At() + "/" + strings.ToLower(i.port.Protocol)
}

// slot returns the endpoint's slot in the cluster, or else on this node.
func slot(i *item) string {
	if e := i.endpoint; e.Slot == nil && e.LocalSlot != nil {
		return "local-" + number(e.LocalSlot)
	}
	return number(i.endpoint.Slot)
}

// weight returns the weight of the endpoint's slice, which the kernel does not know.
func weight(i *item) string {
	switch e := i.endpoint; {
	case i.document.Source == nodestatus.FromKernel || e.Conditions == nil:
		return unknown
	case e.Reason == model.ReasonDrained.String():
		return "0"
	default:
		return strconv.Itoa(max(e.Weight, 1))
	}
}

// why returns why the endpoint gets no connections, or what is wrong although it does.
func why(i *item) string {
	switch e := i.endpoint; {
	case !e.Used():
	case e.Refused > 0:
		return "(refuses)"
	case e.Unanswered > 0:
		return "(silent)"
	case e.KnownConditions().Terminating && !e.KnownConditions().Ready:
		return "(fallback)"
	}
	return i.endpoint.Reason
}

// fieldOf returns the field that leads to what why returns.
func fieldOf(i *item) string {
	if i.endpoint.Used() && i.endpoint.Refused > 0 {
		return findings.FieldTargetPort
	}
	return findings.FieldOf(i.service, i.endpoint)
}

// observed returns a number that is known only if responses were observed.
func observed(i *item, n int) string {
	if i.document.ObservedSeconds == 0 {
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

// ready returns the Ready condition, or Terminating.
func ready(i *item) string {
	if c := i.endpoint.KnownConditions(); c.Terminating && !c.Ready {
		return "Terminating"
	}
	return condition(i, i.endpoint.KnownConditions().Ready)
}

// condition returns a condition, which the kernel does not know.
func condition(i *item, yes bool) string {
	switch {
	case i.document.Source == nodestatus.FromKernel:
		return unknown
	case yes:
		return "True"
	}
	return "False"
}

// behind returns the number of endpoints that the frontend's policy leaves.
func behind(i *item) string {
	n := 0
	for k := range i.port.Endpoints {
		e := &i.port.Endpoints[k]
		if i.frontend.Policy == "Local" && e.LocalSlot != nil || i.frontend.Policy != "Local" && e.Slot != nil {
			n++
		}
	}
	return strconv.Itoa(n)
}

func orUnknown(text string) string {
	if text == "" {
		return unknown
	}
	return text
}
