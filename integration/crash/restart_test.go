package crash

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

const (
	// many Services with so many endpoints each.
	many, each = 10_000, 10
	// perFile is how many a file holds.
	perFile = 500
	// longest is how long a start may take once the manifests are read, with all that
	// the tests' machine does beside. How long it takes is for integration/bench to
	// tell.
	longest = 5 * time.Second
)

// TestARestartOfManyServicesWritesNothingAndLosesNothing is about tables that
// belong to the proxy, where the kernel can do that.
func TestARestartOfManyServicesWritesNothingAndLosesNothing(t *testing.T) {
	s := newStage(t, 0)
	s.manyServices()
	start := time.Now()
	s.flags = quiet // not the text of that batch
	d := s.start(t)
	s.flags = nil
	t.Logf("first load of %d x %d in %s", many, each, time.Since(start).Round(time.Millisecond))
	s.restarts(t, d)
}

// TestARestartWritesNothingToTablesThatBelongToNobody is about the tables of older
// kernels.
func TestARestartWritesNothingToTablesThatBelongToNobody(t *testing.T) {
	s := newStage(t, 1, unprotected)
	s.restarts(t, s.start(t))
}

// restarts ends the proxy in two ways and starts it again, while clients ask.
func (s *stage) restarts(t *testing.T, d *daemon.Daemon) {
	t.Helper()
	before, generation := s.meaning(t), s.kernel.generation(t)
	load := s.ask(t)
	for _, end := range []struct {
		by string
		do func(*daemon.Daemon)
	}{{"SIGTERM", (*daemon.Daemon).Stop}, {"SIGKILL", (*daemon.Daemon).Kill}} {
		end.do(d)
		start := time.Now()
		d = s.launch(t)
		d.AwaitMessage("manifests read")
		reading := time.Since(start)
		d.AwaitMessage("ready")
		took := time.Since(start) - reading
		t.Logf("restart after %s: manifests read in %s, ready in %s more", end.by,
			reading.Round(time.Millisecond), took.Round(time.Millisecond))
		if took > longest {
			t.Errorf("restart after %s: ready %s after the manifests were read, want at most %s", end.by, took, longest)
		}
		now := s.kernel.generation(t)
		if now != generation+s.claims(t) {
			t.Errorf("restart after %s: generation %d became %d: something was written", end.by, generation, now)
		}
		generation = now
	}
	if diff := difference(before, s.meaning(t)); diff != "" {
		t.Errorf("the restarts changed something (-before +after):\n%s", diff)
	}
	load.Stop(t, 10)
}

// claims is how many transactions a proxy needs to take possession of tables that
// its predecessor left: one if they belong to it, and no other program's doing can
// have changed them.
func (s *stage) claims(t *testing.T) uint32 {
	t.Helper()
	if have := s.kernel.read(t); have[model.IPv4].Protected {
		return 1
	}
	return 0
}

// manyServices writes Services of one family and protocol each, all of which
// occur, whose endpoints are nowhere.
func (s *stage) manyServices() {
	var text strings.Builder
	for i := range many {
		f, p := model.Families[i%2], model.Protocols[i/2%len(model.Protocols)]
		to := daemon.Service{Number: 1000 + i}
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Service\nmetadata: {namespace: many, name: many-%d}\n"+
			"spec: {clusterIP: %q, ports: [{protocol: %s, port: 80}]}\n",
			i, to.Addr(f, model.KindClusterIP), strings.ToUpper(p.String()))
		fmt.Fprintf(&text, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {namespace: many, name: many-%d, "+
			"labels: {kubernetes.io/service-name: many-%[1]d}}\naddressType: %s\nports: [{protocol: %s, port: 8080}]\nendpoints:\n",
			i, f, strings.ToUpper(p.String()))
		for n := range each {
			fmt.Fprintf(&text, "- {addresses: [%q], nodeName: node-2}\n", invented(f, i*7+n*3301))
		}
		if i%perFile == perFile-1 {
			s.folder.Write(fmt.Sprintf("many-%d", i), []byte(text.String()))
			text.Reset()
		}
	}
}

// invented is an address that nobody has.
func invented(f model.Family, n int) netip.Addr {
	if f == model.IPv4 {
		return netip.AddrFrom4([4]byte{10, 128 + byte(n>>16), byte(n >> 8), byte(n)})
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:10:128::%x:%x", n>>16, n&0xffff))
}
