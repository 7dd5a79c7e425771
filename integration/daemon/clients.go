package daemon

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// clientRanges are the addresses of the clients outside.
var clientRanges = ranges("198.18.0.0/16", "2001:db8:c::/112")

// AddClients lets the host outside send from every address of [ClientAddr], as
// that many clients.
func AddClients(t testing.TB, l *lab.Lab) {
	t.Helper()
	// IPv6 needs this to bind to an address of a local route.
	err := l.Outside.Do(func() error {
		return os.WriteFile("/proc/sys/net/ipv6/ip_nonlocal_bind", []byte("1"), 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range model.Families {
		// One local route instead of 65,534 addresses.
		labtest.Run(t, l.Outside, "", "ip", "route", "add", "local", clientRanges[f].String(), "dev", "lo")
	}
}

// ClientAddr returns the n-th client address, n from 0 to 65533.
func ClientAddr(f model.Family, n int) netip.Addr { return lab.Nth(clientRanges[f], n+1) }

// NewLab builds a lab whose pods all serve at [TargetPort], with Service routes and
// [AddClients] for the host outside. It returns the pods of both nodes, too.
func NewLab(t testing.TB, pods, remotePods int) (l *lab.Lab, servers []*lab.Host) {
	t.Helper()
	l = labtest.New(t, lab.Options{Pods: pods, RemotePods: remotePods})
	AddClients(t, l)
	RouteServices(t, l, l.Node)
	return l, Serve(t, 1, append(l.Pods[:pods:pods], l.RemotePods...)...)
}

// Serve makes pods serve at a number of ports, from [TargetPort] on, and returns
// them as hosts.
func Serve(t testing.TB, ports int, pods ...*lab.Pod) (servers []*lab.Host) {
	t.Helper()
	for _, pod := range pods {
		for n := range uint16(ports) {
			if err := pod.ServeAll(TargetPort + n); err != nil {
				t.Fatal(err)
			}
		}
		servers = append(servers, pod.Host)
	}
	return servers
}

// Transport is a protocol over an IP family. Every packet test runs over all of
// them.
type Transport struct {
	Protocol model.Protocol
	Family   model.Family
}

// String returns, for example, "UDP-over-IPv6".
func (w Transport) String() string {
	return strings.ToUpper(w.Protocol.String()) + "-over-" + w.Family.String()
}

// Transports returns all combinations.
func Transports() []Transport {
	var all []Transport
	for _, p := range model.Protocols {
		for _, f := range model.Families {
			all = append(all, Transport{p, f})
		}
	}
	return all
}

// ForEachTransport runs a subtest for every transport, all in parallel, and waits
// for all of them.
func ForEachTransport(t *testing.T, test func(*testing.T, Transport)) {
	t.Helper()
	t.Run("all", func(t *testing.T) {
		for _, w := range Transports() {
			t.Run(w.String(), func(t *testing.T) {
				t.Parallel()
				test(t, w)
			})
		}
	})
}
