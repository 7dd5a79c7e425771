package diagnosis

import (
	"fmt"
	"net/netip"
	"slices"
	stdsync "sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

type pair struct {
	asked    model.Match
	endpoint netip.AddrPort // invalid for former endpoints
}

// A ledger has the connections that were made.
type ledger struct {
	hosts []*lab.Host // that serve

	mu    stdsync.Mutex
	lines map[pair]uint64
	names map[model.Match]string // of Services
	// notCounted is how many connections the kernel has reported as not counted.
	notCounted uint64
}

func newLedger(hosts ...*lab.Host) *ledger {
	return &ledger{hosts: hosts, lines: map[pair]uint64{}, names: map[model.Match]string{}}
}

func (b *ledger) note(service string, w daemon.Transport, to netip.AddrPort, by string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.hosts, func(h *lab.Host) bool { return h.Name == by })
	at := model.Match{Family: w.Family, Addr: to.Addr(), Protocol: w.Protocol, Port: to.Port()}
	b.names[at] = service
	b.lines[pair{at, b.hosts[i].AddrPort(w.Family, daemon.TargetPort)}]++
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
// kernel's hash table grows. The kernel may fail to add one, for lack of memory that it gets without
// waiting: what is missing must be what it reports as not counted, and leaves the ledger.
func (b *ledger) check(t *testing.T, when string, k *kernel.Kernel) {
	t.Helper()
	eventually.Succeeds(t, when, func() error {
		have, missing, reported := counted(t, k), uint64(0), uint64(0)
		for at, n := range b.lines {
			missing += n - min(n, have[at])
		}
		for _, f := range model.Families {
			totals, err := k.Counters(f)
			if err != nil {
				return err
			}
			reported += totals[nft.CounterConnectionsFull]
		}
		tooMany := false
		for at, n := range have {
			tooMany = tooMany || n > b.lines[at]
		}
		if tooMany || b.notCounted+missing != reported {
			return fmt.Errorf("made and counted differ, not counted: %d before, %d now (-made +counted):\n%s",
				b.notCounted, reported, cmp.Diff(b.lines, have))
		}
		b.lines, b.notCounted = have, reported
		return nil
	})
}

// ask sends requests, each over a new connection, and records who responded.
func (b *ledger) ask(t *testing.T, service string, from *lab.Host, w daemon.Transport, to netip.AddrPort, times int) {
	t.Helper()
	for range times {
		got, err := from.AskFresh(w.Protocol, netip.Addr{}, to, answer)
		if err != nil || got.Outcome != lab.Answered {
			t.Fatalf("%s asks %s over %s: %s, %v", from, to, w, got, err)
		}
		b.note(service, w, to, got.By)
	}
}
