package diagnosis

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	stdsync "sync"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// A pair is a destination and an endpoint.
type pair struct {
	asked    model.Match
	endpoint netip.AddrPort // invalid for former endpoints
}

// A ledger has the connections that were made.
type ledger struct {
	hosts []*lab.Host // that serve

	mu    stdsync.Mutex
	lines map[pair]uint64
}

func newLedger(hosts ...*lab.Host) *ledger { return &ledger{hosts: hosts, lines: map[pair]uint64{}} }

// note records a response.
func (b *ledger) note(w daemon.Transport, to netip.AddrPort, by string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.hosts, func(h *lab.Host) bool { return h.Name == by })
	b.lines[pair{match(w, to), b.hosts[i].AddrPort(w.Family, daemon.TargetPort)}]++
}

func match(w daemon.Transport, to netip.AddrPort) model.Match {
	return model.Match{Family: w.Family, Addr: to.Addr(), Protocol: w.Protocol, Port: to.Port()}
}

// text returns lines as sorted text.
func text(lines map[pair]uint64) string {
	var out []string
	for at, n := range lines {
		out = append(out, fmt.Sprintf("%s -> %s: %d\n", at.asked, at.endpoint, n))
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// counted returns the kernel's counters.
func counted(t testing.TB, k *kernel.Kernel) map[pair]uint64 {
	t.Helper()
	out := map[pair]uint64{}
	for _, f := range model.Families {
		list, err := k.Connections(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			out[pair{c.Destination, c.Endpoint}] = c.Connections
		}
	}
	return out
}

// check compares the ledger with the kernel's counters, of which some are missing while the
// kernel's hash table grows.
func (b *ledger) check(t *testing.T, when string, k *kernel.Kernel) {
	t.Helper()
	eventually.Succeeds(t, when, func() error {
		if got, want := text(counted(t, k)), text(b.lines); got != want {
			return fmt.Errorf("counted\n%swant\n%s", got, want)
		}
		return nil
	})
}

// open opens the kernel of a node.
func open(t *testing.T, n *lab.Node) *kernel.Kernel {
	t.Helper()
	k, err := kernel.Open(kernel.Config{NetNS: n.FD()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// ask sends requests, each over a new connection, and records who responded.
func (b *ledger) ask(t *testing.T, from *lab.Host, w daemon.Transport, to netip.AddrPort, times int) {
	t.Helper()
	for range times {
		got, err := from.AskFresh(w.Protocol, netip.Addr{}, to, answer)
		if err != nil || got.Outcome != lab.Answered {
			t.Fatalf("%s asks %s over %s: %s, %v", from, to, w, got, err)
		}
		b.note(w, to, got.By)
	}
}

// sets reports which families have a set of connections.
func sets(t *testing.T, k *kernel.Kernel) [2]bool {
	t.Helper()
	have, err := k.Read()
	if err != nil {
		t.Fatal(err)
	}
	var out [2]bool
	for _, f := range model.Families {
		_, out[f] = have[f].Sets[nft.SetID{Family: f, Kind: nft.SetConnections}.Name()]
	}
	return out
}
