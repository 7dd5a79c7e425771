package get

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"kube-vmap/cmd/inspect/nodestatus"
)

// A resource describes a type of rows as data: what the tables, JSON and selectors have of an item.
type resource struct {
	singular, plural, short string

	items   func(*nodestatus.Document) []item
	name    func(*item) string
	columns []column
	wide    []column        // with -o wide only
	fields  []field         // for --field-selector
	object  func(*item) any // for JSON and YAML
}

// An item is a Service; or one of its endpoints or frontends, at a port.
type item struct {
	d       *nodestatus.Document
	s       *nodestatus.Service
	p       *nodestatus.Port
	e       *nodestatus.Endpoint
	f       *nodestatus.Frontend
	traffic nodestatus.Traffic
	// share returns an endpoint's part of the new connections.
	share func(*nodestatus.Endpoint) (percent float64, gets bool)
}

// A column is one of a table. An empty text is printed as <none>.
type column struct {
	title string
	text  func(*item) string
}

const (
	none    = "<none>"    // replaces empty values
	unknown = "<unknown>" // replaces what a document from the kernel does not have
)

var (
	isReady = func(i *item) string { return strconv.FormatBool(i.e.KnownConditions().Ready) }
	isUsed  = func(i *item) string { return strconv.FormatBool(i.e.Used()) }
	truth   = []string{"true", "false"}
)

var resources = []resource{
	{
		singular: "service", plural: "services", short: "svc",
		items: services,
		name:  func(i *item) string { return i.s.Name },
		columns: []column{
			{"NAME", func(i *item) string { return i.s.Name }},
			{"KINDS", ofFrontends(func(f *nodestatus.Frontend) string { return f.Kind })},
			{"CLUSTER-IP", ofFrontends(clusterIP)},
			{"EXTERNAL-IP", ofFrontends(func(f *nodestatus.Frontend) string {
				if f.Kind == clusterIPKind {
					return ""
				}
				return f.Address
			})},
			{"PORT(S)", func(i *item) string { return ofPorts(i, portText) }},
			{"ENDPOINTS", func(i *item) string { return i.d.EndpointText(i.s) }},
			{"CONNECTIONS", connections},
			{"ACTIVE", active},
			{"STATUS", state},
		},
		wide: []column{
			offloaded,
			{"POLICY", ofFrontends(func(f *nodestatus.Frontend) string { return f.Policy })},
			{"SCHEDULER", func(i *item) string {
				return ofPorts(i, func(p *nodestatus.Port) string { return p.Scheduler })
			}},
			{"AFFINITY", func(i *item) string { return ofPorts(i, affinity) }},
			{"PROBLEM", func(i *item) string { return i.s.FirstProblem() }},
		},
		fields: []field{
			{"metadata.name", func(i *item) string { return i.s.Name }, nil},
			{"metadata.namespace", func(i *item) string { return i.s.Namespace }, nil},
			{"spec.clusterIP", func(i *item) string {
				first, _, _ := strings.Cut(ofFrontends(clusterIP)(i), ",")
				return first
			}, nil},
			{"status", state, nodestatus.States()},
			{"severity", func(i *item) string { return i.s.Severity() }, nodestatus.Severities()},
		},
		object: func(i *item) any {
			return struct {
				nodestatus.Service `json:",inline"`
				Status             string `json:"status"`
				Severity           string `json:"severity"`
			}{*i.s, state(i), i.s.Severity()}
		},
	},
	{
		singular: "endpoint", plural: "endpoints", short: "ep",
		items: endpoints,
		name:  endpointName,
		columns: []column{
			{"ADDRESS", endpointName},
			{"SERVICE", servicePort},
			{"NODE", func(i *item) string { return i.e.Node }},
			{"READY", ready},
			{"REASON", why},
			{"SHARE", func(i *item) string {
				if percent, gets := i.share(i.e); gets {
					return fmt.Sprintf("%.3g%%", percent)
				}
				return ""
			}},
			{"CONNECTIONS", connections},
			{"ACTIVE", active},
		},
		wide: []column{
			offloaded,
			{"WEIGHT", weight},
			{"SLOT", slot},
			{"LOCAL-SLOT", func(i *item) string { return number(i.e.LocalSlot) }},
			{"SERVING", func(i *item) string { return condition(i, i.e.KnownConditions().Serving) }},
			{"TERMINATING", func(i *item) string { return condition(i, i.e.KnownConditions().Terminating) }},
			{"ZONE-HINTS", func(i *item) string { return strings.Join(i.e.ZoneHints, ",") }},
			{"NODE-HINTS", func(i *item) string { return strings.Join(i.e.NodeHints, ",") }},
			{"REFUSED", func(i *item) string { return observed(i, i.e.Refused) }},
			{"UNANSWERED", func(i *item) string { return observed(i, i.e.Unanswered) }},
			{"FIELD", fieldOf},
		},
		fields: portFields(
			field{"spec.address", func(i *item) string { return i.e.Address }, nil},
			field{"spec.port", func(i *item) string { return strconv.Itoa(int(i.e.Port)) }, nil},
			field{"spec.node", func(i *item) string { return i.e.Node }, nil},
			field{"status.ready", isReady, truth},
			field{"status.used", isUsed, truth},
			field{"status.reason", func(i *item) string { return i.e.Reason }, nodestatus.Reasons()},
		),
		object: func(i *item) any {
			return struct {
				origin              `json:",inline"`
				nodestatus.Endpoint `json:",inline"`
				Field               string `json:"field,omitempty"`
			}{originOf(i), *i.e, fieldOf(i)}
		},
	},
	{
		singular: "frontend", plural: "frontends", short: "fe",
		items: frontends,
		name:  frontendName,
		columns: []column{
			{"ADDRESS", frontendName},
			{"KIND", func(i *item) string { return i.f.Kind }},
			{"SERVICE", servicePort},
			{"POLICY", func(i *item) string { return cmp.Or(i.f.Policy, unknown) }},
			{"MASQUERADE", func(i *item) string { return cmp.Or(i.f.Masquerade, unknown) }},
			{"VERDICT", func(i *item) string { return i.f.Verdict }},
			{"CONNECTIONS", connections},
			{"ACTIVE", active},
		},
		wide: []column{
			offloaded,
			{"FAMILY", func(i *item) string { return i.p.Family }},
			{"SCHEDULER", func(i *item) string { return i.p.Scheduler }},
			{"AFFINITY", func(i *item) string { return affinity(i.p) }},
			{"ENDPOINTS", behind},
			{"SOURCES", func(i *item) string {
				if !i.f.Restricted {
					return "<any>"
				}
				return strings.TrimRight(strings.Join(i.f.Sources, ",")+",!"+strings.Join(i.f.Denied, ",!"), ",!")
			}},
		},
		fields: portFields(
			field{"spec.address", func(i *item) string { return i.f.Address }, nil},
			field{"spec.port", func(i *item) string { return strconv.Itoa(int(i.f.Port)) }, nil},
			field{"spec.kind", func(i *item) string { return i.f.Kind }, nodestatus.Kinds()},
			field{"spec.policy", func(i *item) string { return i.f.Policy }, nodestatus.Policies[:]},
			field{"spec.masquerade", func(i *item) string { return i.f.Masquerade }, nodestatus.Masquerades[:]},
			field{"spec.verdict", func(i *item) string { return i.f.Verdict }, nodestatus.Verdicts[:]},
		),
		object: func(i *item) any {
			return struct {
				origin              `json:",inline"`
				nodestatus.Frontend `json:",inline"`
			}{originOf(i), *i.f}
		},
	},
}

func portFields(more ...field) []field {
	return append([]field{
		{"metadata.name", func(i *item) string { return i.s.Name }, nil},
		{"metadata.namespace", func(i *item) string { return i.s.Namespace }, nil},
		{"spec.portName", func(i *item) string { return i.p.Name }, nil},
		{"spec.protocol", func(i *item) string { return i.p.Protocol }, []string{"TCP", "UDP", "SCTP"}},
		{"spec.family", func(i *item) string { return i.p.Family }, []string{"IPv4", "IPv6"}},
	}, more...)
}
