package diagnosis

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
	"kube-vmap/sync/connections"
	"kube-vmap/sync/manifests"
)

// A loop is a loop and its follower in the test's process.
type loop struct {
	connections *connections.Connections
	stop        func()
}

// start runs a loop on the node, with frequent clean-ups.
func (s *scene) start(t *testing.T, protect bool) *loop {
	t.Helper()
	k, err := kernel.Open(kernel.Config{NetNS: s.Node.FD()})
	if err != nil {
		t.Fatal(err)
	}
	shared, err := k.Share()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	out := &loop{connections: connections.New(connections.Config{Kernel: shared, Log: log, Period: 200 * time.Millisecond})}
	c := sync.Config{NodeName: s.Node.Name, Followers: []sync.Follower{out.connections}}
	c.Rules = nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, Protect: protect, CountConnections: true}
	l := sync.NewLoop(c, manifests.New(s.folder.Dir(), s.Node.Name, log), k, log)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- l.Run(ctx) }()
	go func() { done <- out.connections.Run(ctx) }()
	out.stop = func() {
		cancel()
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		shared.Close()
		k.Close()
	}
	t.Cleanup(func() { out.stop() })
	select {
	case <-l.Ready():
	case <-time.After(answer):
		t.Fatal("not ready")
	}
	return out
}

// eventually waits until the kernel's counters equal the ledger.
func (s *scene) eventually(t *testing.T, when string, k *kernel.Kernel) {
	t.Helper()
	late := time.After(answer)
	for text(counted(t, k)) != text(s.ledger.lines) {
		select {
		case <-late:
			s.ledger.check(t, when, k)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// sum returns the ledger's connections of a family.
func (b *ledger) sum(f model.Family) (n uint64) {
	for at, m := range b.lines {
		if at.asked.Family == f {
			n += m
		}
	}
	return n
}

func TestStaleCountsAreFolded(t *testing.T) {
	for _, protect := range []bool{false, true} {
		t.Run(fmt.Sprintf("protected=%t", protect), func(t *testing.T) {
			s := newScene(t, 4, 0)
			k := open(t, s.Node)
			if able, err := k.SupportsOwner(); err != nil {
				t.Fatal(err)
			} else if protect && !able {
				t.Skip("this kernel has no tables with owner and persist flags (Linux 6.9)")
			}
			web := daemon.Service{Name: "web", Number: 1, Endpoints: s.servers, Kinds: []model.Kind{model.KindExternalIP, model.KindLoadBalancerIP}}
			other := daemon.Service{Name: "other", Number: 2, Endpoints: s.servers[:1]}
			s.folder.Put("web", web, other)
			l := s.start(t, protect)
			s.each(t, web, 8)
			s.each(t, other, 2)
			s.eventually(t, "with all endpoints", k)
			s.expectTotals(t, l, "with all endpoints")

			web.Endpoints = s.servers[2:]
			s.folder.Put("web", web, other)
			s.ledger.foldOf(web, s.servers[:2])
			s.eventually(t, "when two endpoints are gone", k)
			s.expectTotals(t, l, "when two endpoints are gone")

			web.Endpoints = s.servers[1:3]
			s.folder.Put("web", web, other)
			s.ledger.foldOf(web, s.servers[3:])
			s.eventually(t, "when another one is gone and one is back", k)
			s.each(t, web, 3)
			s.ledger.check(t, "with connections to one that is back", k)
			s.expectTotals(t, l, "with connections to one that is back")

			web.Kinds = []model.Kind{model.KindLoadBalancerIP}
			s.folder.Put("web", web, other)
			for _, f := range model.Families {
				s.ledger.forget(web.Addr(f, model.KindExternalIP))
			}
			s.eventually(t, "when an address is gone", k)

			s.connectByOtherTable(t)
			s.eventually(t, "when another program translated", k)

			s.folder.Put("web", web)
			for _, f := range model.Families {
				s.ledger.forget(other.Addr(f, model.KindClusterIP))
			}
			s.eventually(t, "when a Service is gone", k)

			l.stop()
			l.stop = func() {}
			l = s.start(t, protect)
			defer func() { l.stop(); l.stop = func() {} }()
			s.eventually(t, "after a restart", k)
			s.expectTotals(t, l, "after a restart")
		})
	}
}

// foldOf folds the connections to hosts as endpoints of a Service.
func (b *ledger) foldOf(of daemon.Service, gone []*lab.Host) {
	others := map[pair]uint64{}
	for at, n := range b.lines {
		for _, k := range daemon.Kinds {
			if of.Addr(at.asked.Family, k) == at.asked.Addr {
				others[at] = n
			}
		}
	}
	for at := range others {
		delete(b.lines, at)
	}
	part := &ledger{lines: others}
	part.fold(gone...)
	for at, n := range part.lines {
		b.lines[at] = n
	}
}

// expectTotals compares the ledger with the totals.
func (s *scene) expectTotals(t *testing.T, l *loop, when string) {
	t.Helper()
	totals := map[model.Family]uint64{}
	late := time.After(answer)
	for {
		clear(totals)
		for _, p := range l.connections.Totals().Ports {
			totals[p.Family] += p.Connections
		}
		if totals[model.IPv4] == s.ledger.sum(model.IPv4) && totals[model.IPv6] == s.ledger.sum(model.IPv6) {
			return
		}
		select {
		case <-late:
			t.Fatalf("%s: totals %v, want %d and %d", when, totals, s.ledger.sum(model.IPv4), s.ledger.sum(model.IPv6))
		case <-time.After(50 * time.Millisecond): // reads are a second apart
		}
	}
}

// connectByOtherTable connects to a port that another table translates, as for a hostPort.
func (s *scene) connectByOtherTable(t *testing.T) {
	t.Helper()
	for f, family := range map[model.Family]string{model.IPv4: "ip", model.IPv6: "ip6"} {
		pod := s.servers[3].AddrPort(f, daemon.TargetPort)
		rules := fmt.Sprintf("table %s elsewhere {\nchain c {\ntype nat hook prerouting priority -101\n"+
			"tcp dport 4444 dnat to %[2]s\nudp dport 4444 dnat to %[2]s\nsctp dport 4444 dnat to %[2]s\n}\n}\n", family, pod)
		if out, err := s.Node.Command(t.Context(), "nft", rules).CombinedOutput(); err != nil {
			t.Fatalf("nft: %v\n%s", err, out)
		}
	}
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		to := s.Node.AddrPort(w.Family, 4444)
		got, err := s.Outside.AskFresh(w.Protocol, netip.Addr{}, to, answer)
		if err != nil || got.By != s.servers[3].Name {
			t.Fatalf("%s responds: %v", got, err)
		}
	})
}
