package resolve

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

// kinds are what flags can name, with the short names that kubectl has. One more with a selector
// needs a case in [Resolver.selector], a place in completion.go of the plugin, and the permission
// to get and list it in deploy/kubectl/clusterrole.yaml.
var kinds = []struct {
	kind  Kind
	short string
	group schema.GroupVersion
}{
	{KindPod, "po", corev1.SchemeGroupVersion},
	{KindDeployment, "deploy", appsv1.SchemeGroupVersion},
	{KindStatefulSet, "sts", appsv1.SchemeGroupVersion},
	{KindDaemonSet, "ds", appsv1.SchemeGroupVersion},
	{KindService, "svc", corev1.SchemeGroupVersion},
	{KindNode, "no", corev1.SchemeGroupVersion},
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

// A reference is the text of a flag in its parts.
type reference struct {
	kind            Kind
	namespace, name string
	address         netip.Addr // of KindAddress
	port            string     // name or number; empty if none
	protocol        model.Protocol
	hasProtocol     bool
}

// dnsName matches the DNS name of a Service, as clients have it in their configuration: NAME,
// NAMESPACE, and a port with its colon.
var dnsName = regexp.MustCompile(`^(?:\w+://)?([^./:]+)\.([^./:]+)\.svc(?:\.[^/:]*)?(:\w+)?(?:/|$)`)

// parse reads KIND/[NAMESPACE/]NAME[:PORT[/PROTOCOL]] and ADDRESS[:PORT[/PROTOCOL]].
func parse(text, namespace string) (ref reference, err error) {
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
	if ref.kind, _, ok = KindOf(kind); !ok {
		return ref, fmt.Errorf("%q is not a kind: write pod, deploy, sts, ds, svc or node, for instance pod/%s", kind, text)
	}
	rest, port, hasPort := strings.Cut(rest, ":")
	if err := ref.setPort(text, port, hasPort); err != nil {
		return ref, err
	}
	ref.namespace, ref.name = namespace, rest
	if ns, name, ok := strings.Cut(rest, "/"); ok && ref.kind != KindNode {
		ref.namespace, ref.name = ns, name
	}
	if ref.name == "" || ref.namespace == "" || strings.Contains(ref.name, "/") {
		return ref, fmt.Errorf("%q is not a name: write %s/[NAMESPACE/]NAME[:PORT[/PROTOCOL]]", text, kind)
	}
	if ref.kind == KindNode {
		ref.namespace = ""
	}
	return ref, nil
}

func (ref *reference) setPort(text, port string, has bool) error {
	port, protocol, named := strings.Cut(port, "/")
	if has && port == "" {
		return fmt.Errorf("%q has no port after the colon", text)
	}
	ref.port, ref.hasProtocol = port, named
	if !named {
		return nil
	}
	var err error
	ref.protocol, err = model.ParseProtocol(protocol)
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

func parseAddress(text string) (ref reference, err error) {
	ref.kind = KindAddress
	host, protocol, named := strings.Cut(text, "/")
	if ref.address, err = netip.ParseAddr(strings.Trim(host, "[]")); err != nil {
		var at netip.AddrPort
		if at, err = netip.ParseAddrPort(host); err != nil || at.Port() == 0 {
			return ref, fmt.Errorf("%q is not an address: write 192.0.2.9, 10.96.0.10:53/udp or [fd00::a]:53", text)
		}
		ref.address, ref.port = at.Addr(), strconv.Itoa(int(at.Port()))
	}
	if ref.address.Zone() != "" {
		return ref, fmt.Errorf("%s is a link-local address, which no Service has", ref.address)
	}
	ref.address = ref.address.Unmap()
	if named {
		ref.port += "/" + protocol
	}
	return ref, ref.setPort(text, ref.port, named)
}
