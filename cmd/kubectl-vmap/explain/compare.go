package explain

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/status"
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
	if d.Source != status.FromDaemon || b.destination.Service.Labels[labelProxyName] != "" {
		return nil
	}
	var texts []string
	if lacking := b.frontends(d); len(lacking) > 0 {
		texts = append(texts, "does not have "+some(lacking))
	}
	for _, text := range append(texts, b.endpointDifferences(d)...) {
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
func (b *builder) endpointDifferences(d *status.Document) (texts []string) {
	want, got := sliceEndpoints(b.slices, b.destination.Service), documentEndpoints(d)
	keys := slices.AppendSeq(slices.Collect(maps.Keys(want)), maps.Keys(got))
	slices.SortFunc(keys, endpointKey.compare)
	var missing, gone, ready, unready []string
	for _, k := range slices.Compact(keys) {
		title := b.title(k.at.String())
		isReady, exists := want[k]
		known, has := got[k]
		switch {
		case !has:
			missing = append(missing, title)
		case !exists:
			gone = append(gone, title)
		case known && !isReady:
			ready = append(ready, title)
		case !known && isReady:
			unready = append(unready, title)
		}
	}
	for _, t := range []struct {
		format string
		titles []string
	}{
		{"does not have %s, which EndpointSlices have", missing},
		{"has %s, which no EndpointSlice has", gone},
		{"has %s as ready, and EndpointSlices as not ready", ready},
		{"has %s as not ready, and EndpointSlices as ready", unready},
	} {
		if titles := slices.Compact(t.titles); len(titles) == 1 { // one for all ports with the same number
			texts = append(texts, fmt.Sprintf(t.format, "endpoint "+titles[0]))
		} else if len(titles) > 0 {
			texts = append(texts, fmt.Sprintf(t.format, "endpoints "+some(titles)))
		}
	}
	return texts
}

// some returns the first of a list, and how many more there are.
func some(list []string) string { return status.JoinFirst(list, len(list), maxNamed) }

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
				k := endpointKey{text(p.Name), string(tcpIfEmpty(p.Protocol)), at}
				out[k] = out[k] || e.Conditions.Ready == nil || *e.Conditions.Ready
			}
		}
	}
	return out
}

func hasPort(s *corev1.Service, p discoveryv1.EndpointPort) bool {
	return slices.ContainsFunc(s.Spec.Ports, func(sp corev1.ServicePort) bool {
		return sp.Name == text(p.Name) && tcpIfEmpty(&sp.Protocol) == tcpIfEmpty(p.Protocol)
	})
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func tcpIfEmpty(p *corev1.Protocol) corev1.Protocol {
	if p == nil {
		return corev1.ProtocolTCP
	}
	return resolve.Protocol(*p)
}

func documentEndpoints(d *status.Document) map[endpointKey]bool {
	out := map[endpointKey]bool{}
	for _, s := range d.Services {
		for _, p := range s.Ports {
			for i := range p.Endpoints {
				e := &p.Endpoints[i]
				if e.Port == 0 || e.Reason == status.ReasonGone {
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
func (b *builder) frontends(d *status.Document) (lacking []string) {
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
			f := status.Frontend{Address: ip, Port: uint16(p.Port)} //nolint:gosec // validated by the API server
			if at := f.At(string(tcpIfEmpty(&p.Protocol))); addr(ip).IsValid() && !has[at] {
				lacking = append(lacking, at)
			}
		}
	}
	return lacking
}

// lag returns why a node may be behind the API server.
func (b *builder) lag(d *status.Document) string {
	var out []string
	for _, p := range findings.WithTexts(findings.OfNode(d)) {
		if p.Severity == status.SeverityProblem {
			out = append(out, p.Text)
		}
	}
	if d.Health == nil {
		return strings.Join(out, "; ")
	}
	newest := uint64(0)
	for i := range b.slices {
		newest = max(newest, number(b.slices[i].ResourceVersion))
	}
	for _, p := range d.Health.Positions {
		if p.Kind == "EndpointSlice" && number(p.ResourceVersion) < newest {
			out = append(out, fmt.Sprintf("the newest EndpointSlice that it knows has resource version %s, and one of the Service has %d", p.ResourceVersion, newest))
		}
	}
	return strings.Join(out, "; ")
}

func number(resourceVersion string) uint64 {
	n, _ := strconv.ParseUint(resourceVersion, 10, 64)
	return n
}
