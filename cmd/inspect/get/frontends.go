package get

import (
	"cmp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"kube-vmap/cmd/inspect/nodestatus"
)

func frontends() resource {
	return resource{
		singular: "frontend", plural: "frontends", short: "fe",
		columns: []string{"ADDRESS", "KIND", "SERVICE", "POLICY", "MASQUERADE", "VERDICT", "CONNECTIONS", "ACTIVE"},
		wide:    []string{"FAST-PATH", "FAMILY", "SCHEDULER", "AFFINITY", "ENDPOINTS", "SOURCES"},
		fields: originFields(
			address("spec.address"), port("spec.port"), one("spec.kind", nodestatus.Kinds()...),
			one("spec.policy", append(nodestatus.Policies(), "")...),
			one("spec.masquerade", append(nodestatus.Masquerades(), "")...), one("spec.verdict", nodestatus.Verdicts()...),
		),
		rows: frontendRows,
	}
}

func frontendRows(d *nodestatus.Document) (out []row) {
	each(d, func(s *nodestatus.Service, p *nodestatus.Port) {
		for i := range p.Frontends {
			out = append(out, frontendRow(d, s, p, &p.Frontends[i]))
		}
	})
	return out
}

func frontendRow(d *nodestatus.Document, s *nodestatus.Service, p *nodestatus.Port, f *nodestatus.Frontend) row {
	at, o := f.At(p.Protocol), originOf(s, p)
	return row{
		namespace: s.Namespace, name: at, service: s.Name,
		cells: []string{
			at, f.Kind, of(s, p), cmp.Or(f.Policy, unknown), cmp.Or(f.Masquerade, unknown), f.Verdict,
			connections(d, &f.Traffic), strconv.Itoa(f.Active),
		},
		wide: []string{
			fastPath(d, &f.Traffic), p.Family, cmp.Or(p.Scheduler, none), seconds(p.AffinitySeconds),
			behind(p, f), sources(f),
		},
		fields: o.fields(fields.Set{
			"spec.address": f.Address, "spec.port": strconv.Itoa(int(f.Port)), "spec.kind": f.Kind,
			"spec.policy": f.Policy, "spec.masquerade": f.Masquerade, "spec.verdict": f.Verdict,
		}),
		object: struct {
			origin              `json:",inline"`
			nodestatus.Frontend `json:",inline"`
		}{o, *f},
	}
}

// unknown replaces values that the kernel does not have.
const unknown = "<unknown>"

func seconds(n int) string {
	if n == 0 {
		return none
	}
	return strconv.Itoa(n) + "s"
}

// behind returns the number of endpoints that the policy leaves.
func behind(p *nodestatus.Port, f *nodestatus.Frontend) string {
	n := 0
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		if f.Policy == "Local" && e.LocalSlot != nil || f.Policy != "Local" && e.Slot != nil {
			n++
		}
	}
	return strconv.Itoa(n)
}

// sources returns the source ranges.
func sources(f *nodestatus.Frontend) string {
	switch {
	case !f.Restricted:
		return "<any>"
	case len(f.Sources) == 0:
		return none
	}
	return strings.Join(f.Sources, ",")
}
