package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/model"
)

// A serviceRef is a Service port as --to names it: svc/[NAMESPACE/]NAME[:PORT][/PROTOCOL].
type serviceRef struct {
	namespace, name string
	port            string // its name or number; empty for the only one
	protocol        string // empty for the only one
}

// servicePrefixes are the types that kubectl accepts for Services.
var servicePrefixes = []string{"svc", "service", "services"}

// parseServiceRef reads a reference to a Service port. It reports false for everything else.
func parseServiceRef(text, namespace string) (r serviceRef, ok bool) {
	kind, rest, _ := strings.Cut(text, "/")
	if !slices.Contains(servicePrefixes, kind) {
		return r, false
	}
	parts := strings.Split(rest, "/")
	if _, err := parseProtocol(parts[len(parts)-1]); err == nil && len(parts) > 1 {
		r.protocol = parts[len(parts)-1]
		parts = parts[:len(parts)-1]
	}
	if r.namespace = namespace; len(parts) == 2 {
		r.namespace, parts = parts[0], parts[1:]
	}
	r.name, r.port, _ = strings.Cut(parts[0], ":")
	return r, len(parts) == 1 && r.name != ""
}

// otherNames are the prefixes of objects that only the API server knows.
var otherNames = []string{"pod", "pods", "po", "deploy", "deployment", "deployments", "node", "nodes", "no"}

// resolve replaces the name of a Service in --to by its ClusterIP, of the client's family.
func (o *Options) resolve(ctx context.Context, ask Ask) error {
	for flag, text := range map[string]string{"--from": o.From, "--to": o.To} {
		kind, _, named := strings.Cut(text, "/")
		if named && slices.Contains(otherNames, kind) || flag == "--from" && slices.Contains(servicePrefixes, kind) {
			return fmt.Errorf("%s: %q: a node knows the names of Services only, as the destination; kubectl vmap explain "+
				"knows those of pods and nodes, too", flag, text)
		}
	}
	r, is := parseServiceRef(o.To, o.Namespace)
	if !is {
		if kind, _, _ := strings.Cut(o.To, "/"); slices.Contains(servicePrefixes, kind) {
			return fmt.Errorf("--to: %q: write svc/NAME:PORT or svc/NAMESPACE/NAME:PORT", o.To)
		}
		return nil
	}
	from, _, err := parseFrom(o.From)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	d, err := ask(ctx, nodestatus.Query{Namespace: r.namespace, Name: r.name, Brief: true})
	switch {
	case errors.Is(err, client.ErrNotRunning):
		return fmt.Errorf("--to: %w; without it, only addresses are known: write 10.96.0.10:53/udp", err)
	case err != nil:
		return fmt.Errorf("--to: %w", err)
	}
	o.To, err = r.find(d, model.FamilyOf(from))
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	return nil
}

// find returns the address, port and protocol of the Service port, as --to takes them.
func (r serviceRef) find(d *nodestatus.Document, f model.Family) (string, error) {
	if len(d.Services) == 0 {
		return "", fmt.Errorf("kube-vmap serves no Service %s/%s: it may not exist, be headless, or be left to another "+
			"proxy", r.namespace, r.name)
	}
	var found, matching, others, families []string
	for i := range d.Services[0].Ports {
		p := &d.Services[0].Ports[i]
		families = append(families, p.Family)
		if p.Family != f.String() {
			continue
		}
		for k := range p.Frontends {
			if e := &p.Frontends[k]; e.Kind == model.KindClusterIP.String() {
				if others = append(others, portText(p, e)); r.matches(p, e) {
					found, matching = append(found, e.At(p.Protocol)), append(matching, portText(p, e))
				}
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case !slices.Contains(families, f.String()):
		return "", fmt.Errorf("no %s address, as the client has, of Service %s/%s", f, r.namespace, r.name)
	case len(others) == 0:
		return "", fmt.Errorf("no port of Service %s/%s is programmed; kube-vmap problems -n %s %s shows why", r.namespace,
			r.name, r.namespace, r.name)
	case len(found) == 0:
		return "", fmt.Errorf("no port %q of Service %s/%s; it has %s", r.port, r.namespace, r.name,
			strings.Join(others, ", "))
	}
	return "", fmt.Errorf("several such ports of Service %s/%s: choose one of %s", r.namespace, r.name,
		strings.Join(matching, ", "))
}

// matches reports whether a port of the Service is meant.
func (r serviceRef) matches(p *nodestatus.Port, f *nodestatus.Frontend) bool {
	return (r.port == "" || r.port == p.Name || r.port == strconv.Itoa(int(f.Port))) &&
		(r.protocol == "" || strings.EqualFold(r.protocol, p.Protocol))
}

// portText returns a port as --to takes it, with its name: ":80/tcp (http)".
func portText(p *nodestatus.Port, f *nodestatus.Frontend) string {
	text := ":" + strconv.Itoa(int(f.Port)) + "/" + strings.ToLower(p.Protocol)
	if p.Name != "" {
		text += " (" + p.Name + ")"
	}
	return text
}
