package crash

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

const (
	// each is the number of endpoints of each of [many] Services.
	each = 10
	// perFile is the number of Services in a file.
	perFile = 500
)

// many returns the number of Services, which is less in the gate.
func many() int {
	if testing.Short() {
		return 1000
	}
	return 10_000
}

var (
	// quiet keeps the text of large batches out of the log.
	quiet = []string{"-v", "2"}
	// unprotected makes tables have no owner, as on older kernels.
	unprotected = "--protect-tables=false"
)

// TestRestartWithManyServices tests that a restart writes nothing and loses no connection,
// with tables owned by the proxy where the kernel supports that.
func TestRestartWithManyServices(t *testing.T) {
	s := newStage(t, 0)
	s.manyServices()
	s.flags = quiet // no text of that batch
	d := s.start(t)
	s.flags = nil
	s.restarts(t, d)
}

// TestRestartWithoutTableOwner tests the same with tables as on older kernels.
func TestRestartWithoutTableOwner(t *testing.T) {
	s := newStage(t, 1, unprotected)
	s.restarts(t, s.start(t))
}

// restarts ends the proxy in two ways and restarts it, while clients connect.
func (s *stage) restarts(t *testing.T, d *daemon.Daemon) {
	t.Helper()
	before, generation := s.tables(t), s.kernel.generation(t)
	load := s.startClients(t)
	for _, end := range []struct {
		by string
		do func(*daemon.Daemon)
	}{{"SIGTERM", (*daemon.Daemon).Stop}, {"SIGKILL", (*daemon.Daemon).Kill}} {
		end.do(d)
		d = s.launch(t)
		d.AwaitMessage("ready")
		now := s.kernel.generation(t)
		if now != generation+s.ownershipCommits(t) {
			t.Errorf("restart after %s: generation %d became %d: something was written", end.by, generation, now)
		}
		generation = now
	}
	if diff := difference(before, s.tables(t)); diff != "" {
		t.Errorf("the restarts changed something (-before +after):\n%s", diff)
	}
	load.Stop(t, 10)
}

// ownershipCommits returns how many transactions a proxy needs to take ownership of the
// tables of its predecessor: one if tables have an owner.
func (s *stage) ownershipCommits(t *testing.T) uint32 {
	t.Helper()
	if have := s.kernel.read(t); have[model.IPv4].Protected {
		return 1
	}
	return 0
}

// manyServices writes many Services, each of one family and protocol, whose endpoints do
// not exist.
func (s *stage) manyServices() {
	var text strings.Builder
	for i := range many() {
		f, p := model.Families[i%2], model.Protocols[i/2%len(model.Protocols)]
		to := daemon.Service{Number: 1000 + i}
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Service\nmetadata: {namespace: many, name: many-%d}\n"+
			"spec: {clusterIP: %q, ports: [{protocol: %s, port: 80}]}\n",
			i, to.Addr(f, model.KindClusterIP), strings.ToUpper(p.String()))
		fmt.Fprintf(&text, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {namespace: many, name: many-%d, "+
			"labels: {kubernetes.io/service-name: many-%[1]d}}\naddressType: %s\nports: [{protocol: %s, port: 8080}]\nendpoints:\n",
			i, f, strings.ToUpper(p.String()))
		for n := range each {
			fmt.Fprintf(&text, "- {addresses: [%q], nodeName: node-2}\n", unusedAddr(f, i*7+n*3301))
		}
		if i%perFile == perFile-1 {
			s.folder.Write(fmt.Sprintf("many-%d", i), []byte(text.String()))
			text.Reset()
		}
	}
}

// unusedAddr returns an address that no host has.
func unusedAddr(f model.Family, n int) netip.Addr {
	if f == model.IPv4 {
		return netip.AddrFrom4([4]byte{10, 128 + byte(n>>16), byte(n >> 8), byte(n)})
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:10:128::%x:%x", n>>16, n&0xffff))
}
