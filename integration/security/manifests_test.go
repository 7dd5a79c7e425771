package security

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

const (
	// answer is how long a response may take on a busy machine.
	answer = 5 * time.Second
	// silence is how long there must be no response.
	silence = 300 * time.Millisecond
)

// A service is a Service with all protocols.
type service struct {
	name      string
	number    int            // chooses the ClusterIPs
	families  []model.Family // both if nil
	endpoints []netip.Addr   // of either family
	node      string         // of the endpoints; node-1 if empty
	port      int            // 80 if 0
	target    int            // daemon.Target if 0
	nodePort  int
	spec      string // more lines of its spec
	created   string // when; long ago if empty
}

// clusterIP returns the Service's ClusterIP of a family.
func (s service) clusterIP(f model.Family) netip.Addr {
	return daemon.Service{Number: s.number}.Addr(f, model.KindClusterIP)
}

// at returns the Service's port at its ClusterIP.
func (s service) at(f model.Family) netip.AddrPort {
	return netip.AddrPortFrom(s.clusterIP(f), uint16(cmp.Or(s.port, daemon.Port)))
}

// text returns the Service and its EndpointSlices as YAML.
func (s service) text() []byte {
	var out strings.Builder
	created := s.created
	if created == "" {
		created = "2020-01-01T00:00:00Z"
	}
	fmt.Fprintf(&out, "apiVersion: v1\nkind: Service\nmetadata: {namespace: default, name: %s, creationTimestamp: %q}\nspec:\n", s.name, created)
	if s.families == nil {
		s.families = model.Families[:]
	}
	fmt.Fprintf(&out, "  clusterIP: %q\n  clusterIPs:\n", s.clusterIP(s.families[0]))
	for _, f := range s.families {
		fmt.Fprintf(&out, "  - %q\n", s.clusterIP(f))
	}
	out.WriteString("  ports:\n")
	for _, p := range model.Protocols {
		fmt.Fprintf(&out, "  - {name: %s, protocol: %s, port: %d", p, strings.ToUpper(p.String()), cmp.Or(s.port, daemon.Port))
		if s.nodePort > 0 {
			fmt.Fprintf(&out, ", nodePort: %d", s.nodePort)
		}
		out.WriteString("}\n")
	}
	for line := range strings.Lines(s.spec) {
		out.WriteString("  " + line)
	}
	for _, f := range s.families {
		s.slice(&out, f)
	}
	return []byte(out.String())
}

func (s service) slice(out *strings.Builder, f model.Family) {
	fmt.Fprintf(out, "\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {namespace: default, name: %s-%s, "+
		"labels: {kubernetes.io/service-name: %s}}\naddressType: %s\nports:\n", s.name, strings.ToLower(f.String()), s.name, f)
	for _, p := range model.Protocols {
		fmt.Fprintf(out, "- {name: %s, protocol: %s, port: %d}\n", p, strings.ToUpper(p.String()), cmp.Or(s.target, daemon.TargetPort))
	}
	out.WriteString("endpoints:\n")
	for _, a := range s.endpoints {
		if model.FamilyOf(a) == f {
			fmt.Fprintf(out, "- {addresses: [\"%s\"], nodeName: %s}\n", a, cmp.Or(s.node, "node-1"))
		}
	}
}

// put writes Services to a folder, each to its own file.
func put(f *daemon.Folder, services ...service) {
	for _, s := range services {
		f.Write(s.name, s.text())
	}
}

// addrsOf returns the addresses of a host.
func addrsOf(h *lab.Host) []netip.Addr { return []netip.Addr{h.Addr(model.IPv4), h.Addr(model.IPv6)} }

// newLab returns a lab with two pods; the second serves all protocols.
func newLab(t *testing.T) *lab.Lab {
	t.Helper()
	t.Parallel()
	l := labtest.New(t, lab.Options{Pods: 2})
	if err := l.Pods[1].ServeAll(daemon.TargetPort); err != nil {
		t.Fatal(err)
	}
	return l
}

// clients returns a pod, the node, and the host outside.
func clients(l *lab.Lab) []*lab.Host { return []*lab.Host{l.Pods[0].Host, l.Node.Host, l.Outside} }

// answered checks that the host of that name responds, or none if it is empty.
func answered(t *testing.T, from *lab.Host, w daemon.Transport, to netip.AddrPort, by string) {
	t.Helper()
	patience := answer
	if by == "" {
		patience = silence
	}
	got, err := from.Ask(w.Protocol, to, patience)
	if err != nil || got.By != by {
		t.Errorf("%s asks %s over %s: %s, %v; want a response of %q", from, to, w, got, err, by)
	}
}

// refused checks that a connection is refused, not dropped.
func refused(t *testing.T, from *lab.Host, w daemon.Transport, to netip.AddrPort) {
	t.Helper()
	got, err := from.Ask(w.Protocol, to, answer)
	if err != nil || got.Outcome != lab.Refused {
		t.Errorf("%s asks %s over %s: %s, %v; want it refused", from, to, w, got, err)
	}
}
