package explain

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kubectl-vmap/resolve"
)

// compare adds what nodes know otherwise than the API server. Nodes that differ are asked
// again after a moment, since objects change all the time and reach each node on its own.
func (b *builder) compare(ctx context.Context) error {
	if b.destination.Service == nil {
		return nil
	}
	differing := b.differing()
	if len(differing) == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(b.Settle):
	}
	if err := b.readSlices(ctx); err != nil {
		return err
	}
	each(len(differing), func(i int) { b.readDocument(ctx, differing[i], 0) })
	for _, node := range b.differing() {
		b.report.Differences = append(b.report.Differences, b.differences(node)...)
	}
	return nil
}

func (b *builder) differing() (nodes []string) {
	for _, node := range slices.Sorted(maps.Keys(b.documents)) {
		if len(b.differences(node)) > 0 {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// differences returns what a node knows otherwise.
func (b *builder) differences(node string) (out []Difference) {
	d := b.documents[node]
	if d.Source != nodestatus.FromDaemon || b.destination.Service.Labels[labelProxyName] != "" {
		return nil
	}
	texts := b.endpointDifferences(d)
	if lacking := b.frontends(d); len(lacking) > 0 {
		texts = append([]string{"does not have " + some(lacking)}, texts...)
	}
	for _, text := range texts {
		out = append(out, Difference{Node: node, Text: text, Lag: b.lag(d)})
	}
	return out
}

// labelProxyName names another proxy that is responsible for a Service.
const labelProxyName = "service.kubernetes.io/service-proxy-name"

// An endpointKey is an endpoint of one port of the Service.
type endpointKey struct {
	port, protocol string
	at             netip.AddrPort
}

func (k endpointKey) compare(o endpointKey) int {
	if c := k.at.Compare(o.at); c != 0 {
		return c
	}
	return strings.Compare(k.port+"/"+k.protocol, o.port+"/"+o.protocol)
}

// endpointDifferences compares the endpoints of a document with the EndpointSlices.
func (b *builder) endpointDifferences(d *nodestatus.Document) (texts []string) {
	want, got := sliceEndpoints(b.slices, b.destination.Service), documentEndpoints(d)
	all := maps.Clone(want)
	maps.Copy(all, got)
	formats := [...]string{
		"does not have %s, which EndpointSlices have", "has %s, which no EndpointSlice has",
		"has %s as ready, and EndpointSlices as not ready", "has %s as not ready, and EndpointSlices as ready",
	}
	titles := [len(formats)][]string{}
	for _, k := range slices.SortedFunc(maps.Keys(all), endpointKey.compare) {
		isReady, exists := want[k]
		known, has := got[k]
		for i, differs := range [...]bool{!has, !exists, exists && known && !isReady, has && !known && isReady} {
			if differs {
				titles[i] = append(titles[i], b.title(k.at.String()))
				break
			}
		}
	}
	for i, list := range titles {
		if list = slices.Compact(list); len(list) == 1 { // one for all ports with the same number
			texts = append(texts, fmt.Sprintf(formats[i], "endpoint "+list[0]))
		} else if len(list) > 0 {
			texts = append(texts, fmt.Sprintf(formats[i], "endpoints "+some(list)))
		}
	}
	return texts
}

// some returns the first of a list, and how many more there are.
func some(list []string) string { return nodestatus.JoinFirst(list, len(list), maxNamed) }

// sliceEndpoints returns whether the endpoints of the Service's ports are ready.
func sliceEndpoints(list []discoveryv1.EndpointSlice, s *corev1.Service) map[endpointKey]bool {
	out := map[endpointKey]bool{}
	for _, slice := range list {
		if !slices.Contains(s.Spec.IPFamilies, corev1.IPFamily(slice.AddressType)) && len(s.Spec.IPFamilies) > 0 {
			continue // of domain names, or of a family that the Service does not have
		}
		for _, p := range slice.Ports {
			if p.Port == nil || !hasPort(s, p) {
				continue
			}
			for _, e := range slice.Endpoints {
				if len(e.Addresses) == 0 {
					continue
				}
				at := netip.AddrPortFrom(addr(e.Addresses[0]), uint16(*p.Port)) //nolint:gosec // validated by the API server
				k := endpointKey{ptr.Deref(p.Name, ""), string(protocolOf(p)), at}
				out[k] = out[k] || ptr.Deref(e.Conditions.Ready, true)
			}
		}
	}
	return out
}

func hasPort(s *corev1.Service, p discoveryv1.EndpointPort) bool {
	return slices.ContainsFunc(s.Spec.Ports, func(sp corev1.ServicePort) bool {
		return sp.Name == ptr.Deref(p.Name, "") && resolve.Protocol(sp.Protocol) == protocolOf(p)
	})
}

func protocolOf(p discoveryv1.EndpointPort) corev1.Protocol {
	return resolve.Protocol(ptr.Deref(p.Protocol, ""))
}

func documentEndpoints(d *nodestatus.Document) map[endpointKey]bool {
	out := map[endpointKey]bool{}
	for _, s := range d.Services {
		for _, p := range s.Ports {
			for i := range p.Endpoints {
				e := &p.Endpoints[i]
				if e.Port == 0 || e.Reason == nodestatus.ReasonGone {
					continue // the EndpointSlice does not have the port, or there is none any more
				}
				k := endpointKey{p.Name, p.Protocol, netip.AddrPortFrom(addr(e.Address), e.Port)}
				out[k] = out[k] || e.KnownConditions().Ready
			}
		}
	}
	return out
}

// frontends returns the cluster IPs and ports that a document lacks.
func (b *builder) frontends(d *nodestatus.Document) (lacking []string) {
	has := map[string]bool{}
	for _, s := range d.Services {
		for _, p := range s.Ports {
			for _, f := range p.Frontends {
				has[f.At(p.Protocol)] = true
			}
		}
	}
	for _, ip := range b.destination.Service.Spec.ClusterIPs {
		for _, p := range b.destination.Service.Spec.Ports {
			f := nodestatus.Frontend{Address: ip, Port: uint16(p.Port)} //nolint:gosec // validated by the API server
			if at := f.At(string(resolve.Protocol(p.Protocol))); addr(ip).IsValid() && !has[at] {
				lacking = append(lacking, at)
			}
		}
	}
	return lacking
}

// lag returns why a node may be behind the API server.
func (b *builder) lag(d *nodestatus.Document) string {
	var out []string
	for _, p := range findings.WithTexts(findings.OfNode(d)) {
		if p.Severity == nodestatus.SeverityProblem {
			out = append(out, p.Text)
		}
	}
	newest := ""
	newer := func(a, b string) bool {
		n, err := resourceversion.CompareResourceVersion(a, b)
		return err == nil && n > 0
	}
	for i := range b.slices {
		if v := b.slices[i].ResourceVersion; newest == "" || newer(v, newest) {
			newest = v
		}
	}
	for _, p := range ptr.Deref(d.Health, nodestatus.Health{}).Positions {
		if p.Kind == "EndpointSlice" && newer(newest, p.ResourceVersion) {
			out = append(out, fmt.Sprintf("the newest EndpointSlice that it knows has resource version %s, "+
				"and one of the Service has %s", p.ResourceVersion, newest))
		}
	}
	return strings.Join(out, "; ")
}
