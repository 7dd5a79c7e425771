package main

import (
	"bytes"
	"embed"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// The addresses of the two Services in the manifests.
var (
	nginx = [...]netip.AddrPort{
		netip.MustParseAddrPort("10.96.191.108:8080"),
		netip.MustParseAddrPort("[fd00:10:96::bf6c]:8080"),
	}
	nginxNodePort = [...]netip.AddrPort{
		netip.MustParseAddrPort("192.0.2.1:30080"),
		netip.MustParseAddrPort("[2001:db8:2::1]:30080"),
	}
	nginxLoadBalancer = [...]netip.AddrPort{
		netip.MustParseAddrPort("198.51.100.80:8080"),
		netip.MustParseAddrPort("[2001:db8:80::50]:8080"),
	}
	nginxHealth = netip.MustParseAddrPort("192.0.2.1:32080")
	dns         = [...]netip.AddrPort{
		netip.MustParseAddrPort("10.96.0.10:53"),
		netip.MustParseAddrPort("[fd00:10:96::a]:53"),
	}
)

//go:embed manifests
var manifests embed.FS

// The files that change. They have templates.
const (
	endpointsFile = "nginx-endpoints.yaml"
	serviceFile   = "nginx.yaml"
)

var (
	endpointsTemplate = template.Must(template.ParseFS(manifests, "manifests/"+endpointsFile+".tmpl"))
	exposedTemplate   = template.Must(template.ParseFS(manifests, "manifests/nginx-exposed.yaml.tmpl"))
)

// folder is the folder of manifests that kube-vmap watches.
type folder string

// newFolder creates a folder with the manifests that do not change at first.
func newFolder() (folder, error) {
	dir, err := os.MkdirTemp("", "kube-vmap-demo-")
	if err != nil {
		return "", fmt.Errorf("create a folder for manifests: %w", err)
	}
	f := folder(dir)
	for _, name := range []string{"cluster.yaml", serviceFile, "dns.yaml"} {
		text, err := manifests.ReadFile("manifests/" + name)
		if err == nil {
			err = f.write(name, text)
		}
		if err != nil {
			return f, fmt.Errorf("write manifest %s: %w", name, err)
		}
	}
	return f, nil
}

// slice is the data of the template for an EndpointSlice.
type slice struct {
	Name        string
	AddressType model.Family
	Endpoints   []endpoint
}

type endpoint struct {
	Pod     string
	Address netip.Addr
}

// setEndpoints makes these pods the endpoints of nginx: one EndpointSlice per
// family, in one file.
func (f folder) setEndpoints(pods []*lab.Pod) error {
	var slices []slice
	for _, family := range model.Families {
		s := slice{Name: "nginx-" + strings.ToLower(family.String()), AddressType: family}
		for _, p := range pods {
			s.Endpoints = append(s.Endpoints, endpoint{p.Name, p.Addr(family)})
		}
		slices = append(slices, s)
	}
	var text bytes.Buffer
	if err := endpointsTemplate.Execute(&text, slices); err != nil {
		return fmt.Errorf("write EndpointSlices: %w", err)
	}
	if err := f.write(endpointsFile, text.Bytes()); err != nil {
		return fmt.Errorf("write EndpointSlices: %w", err)
	}
	return nil
}

// expose makes nginx a Service of type LoadBalancer with that
// externalTrafficPolicy.
func (f folder) expose(policy string) error {
	var text bytes.Buffer
	err := exposedTemplate.Execute(&text, policy)
	if err == nil {
		err = f.write(serviceFile, text.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write the Service: %w", err)
	}
	return nil
}

// write replaces a file atomically: it writes another one and renames it.
func (f folder) write(name string, text []byte) error {
	path := filepath.Join(string(f), name)
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (f folder) remove() error { return os.RemoveAll(string(f)) }
