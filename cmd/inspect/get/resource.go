package get

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"kube-vmap/cmd/inspect/status"
)

// resource is something that can be asked for.
type resource struct {
	// singular and plural are its names, Short the shortest; each will do.
	singular, plural, short string

	columns, wide []string // headings; the second are of -o wide only
	fields        []field  // that can be selected by
	rows          func(*status.Document) []row
}

// row is one thing of a resource.
type row struct {
	namespace, name string
	service         string // whose it is
	cells, wide     []string
	fields          fields.Set
	object          any // for JSON and YAML
}

// Resources lists all there are.
func resources() []resource {
	return []resource{services(), endpoints(), frontends()}
}

// find is the resource of a name.
func find(name string) (r resource, found bool) {
	all := resources()
	i := slices.IndexFunc(all, func(r resource) bool { return r.called(name) })
	if i < 0 {
		return r, false
	}
	return all[i], true
}

// called reports whether it is one of the resource's names.
func (r *resource) called(name string) bool {
	return slices.Contains([]string{r.singular, r.plural, r.short}, strings.ToLower(name))
}

// of is the name of the Service port that a row is about: "web:http".
func of(s *status.Service, p *status.Port) string {
	if p.Name == "" {
		return s.Name
	}
	return s.Name + ":" + p.Name
}

// origin is where an object of JSON or YAML belongs.
type origin struct {
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	PortName  string `json:"portName,omitempty"`
	Protocol  string `json:"protocol"`
	Family    string `json:"family"`
}

func originOf(s *status.Service, p *status.Port) origin {
	return origin{s.Namespace, s.Name, p.Name, p.Protocol, p.Family}
}

// fields are those that every row of a port has.
func (o *origin) fields(more fields.Set) fields.Set {
	out := fields.Set{
		"metadata.name": o.Service, "metadata.namespace": o.Namespace,
		"spec.portName": o.PortName, "spec.protocol": o.Protocol, "spec.family": o.Family,
	}
	for name, value := range more {
		out[name] = value
	}
	return out
}

// originFields are what origin.fields gives.
func originFields(more ...field) []field {
	return append([]field{
		anything("metadata.name"), anything("metadata.namespace"), anything("spec.portName"),
		one("spec.protocol", protocols()...), one("spec.family", families()...),
	}, more...)
}

// each calls fn for each port in a document.
func each(d *status.Document, fn func(*status.Service, *status.Port)) {
	for i := range d.Services {
		for k := range d.Services[i].Ports {
			fn(&d.Services[i], &d.Services[i].Ports[k])
		}
	}
}
