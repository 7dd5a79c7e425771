// Package reference reads what --from and --to of explain name: objects, and addresses. A node knows
// only Services and addresses, the plugin all of them.
package reference

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// Kind is a kind of object that a flag can name.
type Kind string

// Kinds of objects.
const (
	KindPod         Kind = "pod"
	KindDeployment  Kind = "deployment"
	KindStatefulSet Kind = "statefulset"
	KindDaemonSet   Kind = "daemonset"
	KindService     Kind = "service"
	KindNode        Kind = "node"
	KindAddress     Kind = "address"
)

var core, apps = schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "apps", Version: "v1"}

// kinds are what flags can name, with the short names that kubectl has. One more with a selector
// needs a case in Resolver.selector of package resolve, a place in completion.go of the plugin, and the permission
// to get and list it in deploy/kubectl/clusterrole.yaml.
var kinds = []struct {
	kind  Kind
	short string
	group schema.GroupVersion
}{
	{KindPod, "po", core},
	{KindDeployment, "deploy", apps},
	{KindStatefulSet, "sts", apps},
	{KindDaemonSet, "ds", apps},
	{KindService, "svc", core},
	{KindNode, "no", core},
}

// KindOf returns the kind of a name, its plural or short name, and its resource in the API.
func KindOf(name string) (Kind, schema.GroupVersionResource, bool) {
	name = strings.ToLower(name)
	for _, k := range kinds {
		plural := string(k.kind) + "s"
		if name == string(k.kind) || name == plural || name == k.short {
			return k.kind, k.group.WithResource(plural), true
		}
	}
	return "", schema.GroupVersionResource{}, false
}

// A Reference is the text of a flag in its parts.
type Reference struct {
	Kind            Kind
	Namespace, Name string
	Address         netip.Addr // of KindAddress
	Port            string     // name or number; empty if none
	Protocol        model.Protocol
	HasProtocol     bool
}

// SourcePort returns the port of a client; zero for any.
func (ref *Reference) SourcePort() (uint16, error) {
	switch port, err := strconv.ParseUint(ref.Port, 10, 16); {
	case ref.HasProtocol:
		return 0, fmt.Errorf("%q is a protocol, which belongs to --to", ref.Protocol)
	case ref.Port == "":
		return 0, nil
	case err != nil || port == 0:
		return 0, fmt.Errorf("%q is not the number of a source port", ref.Port)
	default:
		return uint16(port), nil
	}
}

// dnsName matches the DNS name of a Service, as clients have it in their configuration: NAME,
// NAMESPACE, and a port with its colon.
var dnsName = regexp.MustCompile(`^(?:\w+://)?([^./:]+)\.([^./:]+)\.svc(?:\.[^/:]*)?(:\w+)?(?:/|$)`)

// Parse reads KIND/[NAMESPACE/]NAME[:PORT[/PROTOCOL]] and ADDRESS[:PORT[/PROTOCOL]].
func Parse(text, namespace string) (ref Reference, err error) {
	if text == "" {
		return ref, fmt.Errorf("is empty")
	}
	if err := nodestatus.CheckNames([]string{text}); err != nil {
		return ref, err
	}
	if isAddress(text) {
		return parseAddress(text)
	}
	if m := dnsName.FindStringSubmatch(text); m != nil {
		return ref, fmt.Errorf("%q is a DNS name: write svc/%s/%s%s", text, m[2], m[1], m[3])
	}
	kind, rest, ok := strings.Cut(text, "/")
	if !ok {
		return ref, fmt.Errorf("%q has no kind: write pod/%[1]s, deploy/%[1]s, svc/%[1]s or node/%[1]s, or an address", text)
	}
	if ref.Kind, _, ok = KindOf(kind); !ok {
		return ref, fmt.Errorf("%q is not a kind: write pod, deploy, sts, ds, svc or node, for instance pod/%s", kind, text)
	}
	rest, port, hasPort := strings.Cut(rest, ":")
	if err := ref.setPort(text, port, hasPort); err != nil {
		return ref, err
	}
	ref.Namespace, ref.Name = namespace, rest
	if ns, name, ok := strings.Cut(rest, "/"); ok && ref.Kind != KindNode {
		ref.Namespace, ref.Name = ns, name
	}
	if ref.Name == "" || ref.Namespace == "" || strings.Contains(ref.Name, "/") {
		return ref, fmt.Errorf("%q is not a name: write %s/[NAMESPACE/]NAME[:PORT[/PROTOCOL]]", text, kind)
	}
	if ref.Kind == KindNode {
		ref.Namespace = ""
	}
	return ref, nil
}

func (ref *Reference) setPort(text, port string, has bool) error {
	port, protocol, named := strings.Cut(port, "/")
	if has && port == "" {
		return fmt.Errorf("%q has no port after the colon", text)
	}
	ref.Port, ref.HasProtocol = port, named
	if !named {
		return nil
	}
	var err error
	ref.Protocol, err = model.ParseProtocol(protocol)
	return err
}

// isAddress reports whether a text is meant as an address; names have neither colons before
// the first slash nor only digits and dots.
func isAddress(text string) bool {
	host, _, _ := strings.Cut(text, "/")
	if strings.HasPrefix(host, "[") || strings.Count(host, ":") > 1 {
		return true
	}
	host, _, _ = strings.Cut(host, ":")
	return strings.Trim(host, "0123456789.") == ""
}

func parseAddress(text string) (ref Reference, err error) {
	ref.Kind = KindAddress
	host, protocol, named := strings.Cut(text, "/")
	if ref.Address, err = netip.ParseAddr(strings.Trim(host, "[]")); err != nil {
		var at netip.AddrPort
		if at, err = netip.ParseAddrPort(host); err != nil || at.Port() == 0 {
			return ref, fmt.Errorf("%q is not an address: write 192.0.2.9, 10.96.0.10:53/udp or [fd00::a]:53", text)
		}
		ref.Address, ref.Port = at.Addr(), strconv.Itoa(int(at.Port()))
	}
	ref.Address = ref.Address.Unmap()
	switch {
	case ref.Address.Zone() != "":
		return ref, fmt.Errorf("%s is a link-local address, which no Service has", ref.Address)
	case ref.Address.IsMulticast(), ref.Address == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return ref, fmt.Errorf("%s is an address of a group, which no Service has", ref.Address)
	}
	if !named {
		return ref, nil
	}
	if ref.Port == "" {
		return ref, fmt.Errorf("%q has a protocol and no port: write 10.96.0.10:53/udp or [fd00::a]:53/udp", text)
	}
	return ref, ref.setPort(text, ref.Port+"/"+protocol, true)
}
