package get

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

func endpoints() resource {
	return resource{
		singular: "endpoint", plural: "endpoints", short: "ep",
		columns: []string{"ADDRESS", "SERVICE", "SLOT", "NODE", "READY", "REASON", "CONNECTIONS", "ACTIVE"},
		wide: []string{
			"FAST-PATH", "WEIGHT", "SHARE", "LOCAL-SLOT", "SERVING", "TERMINATING", "ZONE-HINTS",
			"NODE-HINTS", "REFUSED", "UNANSWERED", "FIELD",
		},
		fields: originFields(
			address("spec.address"), port("spec.port"), anything("spec.node"), yesOrNo("status.ready"), yesOrNo("status.used"),
			one("status.reason", append(nodestatus.Reasons(), "")...),
		),
		rows: endpointRows,
	}
}

func endpointRows(d *nodestatus.Document) (out []row) {
	each(d, func(s *nodestatus.Service, p *nodestatus.Port) {
		percent := p.SharePercents()
		for i := range p.Endpoints {
			e := &p.Endpoints[i]
			out = append(out, endpointRow(d, s, p, e, share(percent(e))))
		}
	})
	return out
}

func endpointRow(d *nodestatus.Document, s *nodestatus.Service, p *nodestatus.Port, e *nodestatus.Endpoint,
	share string,
) row {
	o, at := originOf(s, p), e.Address
	if e.Port != 0 {
		at = join(e.Address, e.Port, p.Protocol)
	}
	return row{
		namespace: s.Namespace, name: at, service: s.Name,
		cells: []string{
			at, of(s, p), slot(e), cmp.Or(e.Node, none), ready(d, e), why(e),
			connections(d, &e.Traffic), strconv.Itoa(e.Active),
		},
		wide: []string{
			fastPath(d, &e.Traffic), weight(d, e), share, number(e.LocalSlot), condition(d, e.KnownConditions().Serving),
			condition(d, e.KnownConditions().Terminating),
			cmp.Or(strings.Join(e.ZoneHints, ","), none), cmp.Or(strings.Join(e.NodeHints, ","), none),
			observed(d, e.Refused), observed(d, e.Unanswered), cmp.Or(fieldOf(s, e), none),
		},
		fields: o.fields(fields.Set{
			"spec.address": e.Address, "spec.port": strconv.Itoa(int(e.Port)), "spec.node": e.Node,
			"status.ready": strconv.FormatBool(e.KnownConditions().Ready), "status.used": strconv.FormatBool(e.Used()),
			"status.reason": e.Reason,
		}),
		object: struct {
			origin              `json:",inline"`
			nodestatus.Endpoint `json:",inline"`
			Field               string `json:"field,omitempty"`
		}{o, *e, fieldOf(s, e)},
	}
}

// slot returns the endpoint's slot in the cluster, or else on this node.
func slot(e *nodestatus.Endpoint) string {
	if e.Slot == nil && e.LocalSlot != nil {
		return "local-" + number(e.LocalSlot)
	}
	return number(e.Slot)
}

// share returns the endpoint's part of the new connections, if parts differ.
func share(percent float64, uneven bool) string {
	if uneven {
		return fmt.Sprintf("%.3g%%", percent)
	}
	return none
}

// weight returns the weight of the endpoint's slice, which the kernel does not know.
func weight(d *nodestatus.Document, e *nodestatus.Endpoint) string {
	switch {
	case d.Source == nodestatus.FromKernel || e.Conditions == nil:
		return unknown
	case e.Reason == model.ReasonDrained.String():
		return "0"
	}
	return strconv.Itoa(max(e.Weight, 1))
}

// why returns why it gets no connections, or what is wrong although it does.
func why(e *nodestatus.Endpoint) string {
	switch {
	case !e.Used():
	case e.Refused > 0:
		return "(refuses)"
	case e.Unanswered > 0:
		return "(silent)"
	case e.KnownConditions().Terminating && !e.KnownConditions().Ready:
		return "(fallback)"
	}
	return cmp.Or(e.Reason, none)
}

// fieldOf returns the field that leads to what why returns.
func fieldOf(s *nodestatus.Service, e *nodestatus.Endpoint) string {
	if e.Used() && e.Refused > 0 {
		return findings.FieldTargetPort
	}
	return findings.FieldOf(s, e)
}

// observed returns a number that is known only if responses were observed.
func observed(d *nodestatus.Document, n int) string {
	if d.ObservedSeconds == 0 {
		return unknown
	}
	return strconv.Itoa(n)
}

func number(n *int) string {
	if n == nil {
		return none
	}
	return strconv.Itoa(*n)
}

// ready returns the Ready condition, or Terminating.
func ready(d *nodestatus.Document, e *nodestatus.Endpoint) string {
	if c := e.KnownConditions(); c.Terminating && !c.Ready {
		return "Terminating"
	}
	return condition(d, e.KnownConditions().Ready)
}

// condition returns a condition, which the kernel does not know.
func condition(d *nodestatus.Document, yes bool) string {
	switch {
	case d.Source == nodestatus.FromKernel:
		return unknown
	case yes:
		return "True"
	}
	return "False"
}
