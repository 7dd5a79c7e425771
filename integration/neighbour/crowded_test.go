package neighbour_test

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/neighbour"
	"kube-vmap/model"
)

const (
	// services is the number of Services of other tenants.
	services = 45_000
	// maxLock is how long a transaction may block other programs that use nf_tables. The
	// goal is 100 ms; the rest is for a busy machine.
	maxLock = 250 * time.Millisecond
)

// manifests is a file of objects in the namespace default, as YAML.
type manifests struct{ bytes.Buffer }

// service is a Service of IPv4 with ports over TCP from 80 on.
func (m *manifests) service(name string, at netip.Addr, ports int, spec string) {
	fmt.Fprintf(&m.Buffer, "---\n{apiVersion: v1, kind: Service, metadata: {namespace: default, name: %s}, spec: {clusterIP: %s, ports: [", name, at)
	for i := range ports {
		fmt.Fprintf(&m.Buffer, "{name: p%d, port: %d},", i, 80+i)
	}
	fmt.Fprintf(&m.Buffer, "]%s}\n", spec)
}

// slice is an EndpointSlice with endpoints from an address on, each at as many ports.
func (m *manifests) slice(service string, ports int, endpoints ...netip.Addr) {
	fmt.Fprintf(&m.Buffer, "---\n{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, "+
		"metadata: {namespace: default, name: %s, labels: {kubernetes.io/service-name: %s}}, ports: [", service, service)
	for i := range ports {
		fmt.Fprintf(&m.Buffer, "{name: p%d, port: 8080},", i)
	}
	m.WriteString("], endpoints: [")
	for _, a := range endpoints {
		fmt.Fprintf(&m.Buffer, "{addresses: [%s]},", a)
	}
	m.WriteString("]}\n")
}

// nth returns the n-th address after 10.a.0.0.
func nth(a byte, n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, a + byte(n>>16), byte(n >> 8), byte(n)})
}

// nths returns n of these addresses, from first on.
func nths(a byte, first, n int) []netip.Addr {
	out := make([]netip.Addr, n)
	for i := range out {
		out[i] = nth(a, first+i)
	}
	return out
}

// step is a file of manifests before and after a change, and finally empty.
type step struct {
	name          string
	before, after manifests
}

// steps are changes by one tenant.
func steps() (all []*step) {
	add := func(name string, versions func(m *manifests, version int)) {
		s := &step{name: name}
		versions(&s.before, 0)
		versions(&s.after, 1)
		all = append(all, s)
	}
	add("another endpoint", func(m *manifests, version int) {
		m.service("small", nth(97, 1), 1, "}")
		m.slice("small", 1, nth(200, version))
	})
	add("more endpoints", func(m *manifests, version int) {
		m.service("grows", nth(97, 2), 1, "}")
		m.slice("grows", 1, nths(200, 0, 1+200*version)...)
	})
	add("100,000 other endpoints", func(m *manifests, version int) {
		m.service("large", nth(97, 3), 100, "}")
		m.slice("large", 100, nths(200, 1000*version, 1000)...)
	})
	add("2,000 other addresses", func(m *manifests, version int) {
		var list bytes.Buffer
		for _, a := range nths(160, 2000*version, 2000) {
			fmt.Fprintf(&list, "%s,", a)
		}
		m.service("external", nth(97, 4), 1, ", externalIPs: ["+list.String()+"]}")
	})
	add("19,378 source ranges less", func(m *manifests, version int) {
		var list bytes.Buffer
		for i := range 19_378 * (1 - version) {
			fmt.Fprintf(&list, "%s/31,", nth(64, 4*i))
		}
		m.service("ranges", nth(97, 5), 1, ", type: LoadBalancer, loadBalancerSourceRanges: ["+list.String()+"]}, status: {loadBalancer: {ingress: [{ip: 203.0.113.9}]}}")
	})
	add("30,000 other ports", func(m *manifests, version int) {
		for i := range 3 {
			m.service(fmt.Sprintf("ports-%d", i), nth(97, 10+i+10*version), 10_000, "}")
		}
	})
	add("every class of affinity", func(m *manifests, version int) {
		seconds := []int{1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600, 7200, 10_800, 14_400, 21_600, 28_800, 43_200, 86_400}
		for i := range 8 * len(seconds) {
			name := fmt.Sprintf("sticky-%d", i)
			m.service(name, nth(97, 100+i+1000*version), 1, fmt.Sprintf(", sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: %d}}}", seconds[i/8]))
			m.slice(name, 1, nths(200, 0, 2<<(i%8)-1)...)
		}
	})
	return all
}

// marker is a Service whose port changes each time: an answer at the new port shows that
// the proxy has applied everything that was written before.
type marker struct {
	t      *testing.T
	folder *daemon.Folder
	from   *lab.Host
	to     netip.Addr
	port   uint16
}

// follow writes a file and waits until the marker answers. The kernel may still be
// freeing deleted objects.
func (k *marker) follow(name string, text []byte) time.Duration {
	k.t.Helper()
	k.folder.Write(name, text)
	start := time.Now()
	k.port++
	var m manifests
	at := nth(97, 0)
	fmt.Fprintf(&m.Buffer, "---\n{apiVersion: v1, kind: Service, metadata: {namespace: default, name: marker}, "+
		"spec: {clusterIP: %s, ports: [{name: p0, port: %d}]}}\n", at, k.port)
	m.slice("marker", 1, k.to)
	// The proxy reads files in the order of their names: the other file after the
	// marker.
	k.folder.Write("a-marker", m.Bytes())
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		a, err := k.from.Ask(model.TCP, netip.AddrPortFrom(at, k.port), 100*time.Millisecond)
		if err != nil {
			k.t.Fatal(err)
		}
		if a.Outcome == lab.Answered {
			return time.Since(start)
		}
	}
	k.t.Fatalf("the proxy did not follow %s", name)
	return 0
}

// TestProxyDoesNotBlockOtherProgramsWith45000Services makes the changes of one tenant
// among the Services of others. The first load may hold the lock for longer.
func TestProxyDoesNotBlockOtherProgramsWith45000Services(t *testing.T) {
	if testing.Short() {
		t.Skip("of the long suite") // how long another program waits depends on what else runs
	}
	l := labtest.New(t, lab.Options{Pods: 2})
	if err := l.Pods[0].ServeAll(8080); err != nil {
		t.Fatal(err)
	}
	f := daemon.NewFolder(t, l)
	var others manifests
	for i := range services {
		name := fmt.Sprintf("s%d", i)
		others.service(name, nth(96, i+10), 1, "}")
		others.slice(name, 1, nth(210, i))
	}
	f.Write("others", others.Bytes())
	daemon.Start(t, l.Node, f)
	k := &marker{t: t, folder: f, from: l.Pods[1].Host, to: l.Pods[0].Addr(model.IPv4), port: 1000}
	k.follow("step", []byte("# nothing\n"))
	n, err := neighbour.Start(l.Node.Host)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps() {
		for _, version := range []struct {
			name string
			text []byte
		}{{"create", s.before.Bytes()}, {"change", s.after.Bytes()}, {"delete", []byte("# nothing\n")}} {
			n.Take()
			took := k.follow("step", version.text)
			n.Turn()
			longest := n.Take()
			t.Logf("%s, %s: followed after %s, others waited for %s", s.name, version.name, took.Round(time.Millisecond), longest.Round(time.Millisecond))
			if longest > maxLock {
				t.Errorf("%s, %s: another program waited for %s, want at most %s", s.name, version.name, longest, maxLock)
			}
		}
	}
	if err := n.Stop(); err != nil {
		t.Error(err)
	}
}
