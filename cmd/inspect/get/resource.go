package get

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"kube-vmap/cmd/inspect/nodestatus"
)

// resource is a type of rows.
type resource struct {
	singular, plural, short string

	columns, wide []string // headers; wide ones with -o wide only
	fields        []field  // for --field-selector
	rows          func(*nodestatus.Document) []row
}

// row is one object.
type row struct {
	node            string // those that have it, if that is known
	namespace, name string
	service         string // that it belongs to
	cells, wide     []string
	fields          fields.Set
	object          any // for JSON and YAML
}

// resources returns all resources.
func resources() []resource {
	return []resource{services(), endpoints(), frontends()}
}

// find returns the resource with a name.
func find(name string) (r resource, found bool) {
	all := resources()
	i := slices.IndexFunc(all, func(r resource) bool { return r.called(name) })
	if i < 0 {
		return r, false
	}
	return all[i], true
}

// called reports whether a name is one of the resource's.
func (r *resource) called(name string) bool {
	return slices.Contains([]string{r.singular, r.plural, r.short}, strings.ToLower(name))
}

// of returns the name of a Service port: "web:http".
func of(s *nodestatus.Service, p *nodestatus.Port) string {
	if p.Name == "" {
		return s.Name
	}
	return s.Name + ":" + p.Name
}

// origin is the Service port of an object in JSON or YAML.
type origin struct {
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	PortName  string `json:"portName,omitempty"`
	Protocol  string `json:"protocol"`
	Family    string `json:"family"`
}

func originOf(s *nodestatus.Service, p *nodestatus.Port) origin {
	return origin{s.Namespace, s.Name, p.Name, p.Protocol, p.Family}
}

// fields returns more with the fields that every row of a port has.
func (o *origin) fields(more fields.Set) fields.Set {
	out := fields.Set{
		"metadata.name": o.Service, "metadata.namespace": o.Namespace,
		"spec.portName": o.PortName, "spec.protocol": o.Protocol, "spec.family": o.Family,
	}
	maps.Copy(out, more)
	return out
}

// originFields returns more with the fields of origin.fields.
func originFields(more ...field) []field {
	return append([]field{
		anything("metadata.name"), anything("metadata.namespace"), anything("spec.portName"),
		one("spec.protocol", protocols()...), one("spec.family", families()...),
	}, more...)
}

// each calls fn for each port in a document.
func each(d *nodestatus.Document, fn func(*nodestatus.Service, *nodestatus.Port)) {
	for i := range d.Services {
		for k := range d.Services[i].Ports {
			fn(&d.Services[i], &d.Services[i].Ports[k])
		}
	}
}
