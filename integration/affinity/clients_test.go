package affinity

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// answer is how long an answer may take on a busy machine.
	answer = 5 * time.Second
	// long is an affinity that does not end while a test runs.
	long = 3 * time.Hour
	// workers ask at the same time, for one way.
	workers = 4
)

// ask asks over a new connection, and returns who answered. An invalid address
// leaves it to the host which of its own to ask from.
func ask(from *lab.Host, a netip.Addr, w daemon.Transport, to netip.AddrPort) (string, error) {
	got, err := from.AskFresh(w.Protocol, a, to, answer)
	if err == nil && got.Outcome != lab.Answered {
		err = fmt.Errorf("%s asks %s over %s from %s: %s", from, to, w, a, got)
	}
	return got.By, err
}

// crowd are some clients of the crowd outside, by their numbers.
type crowd struct{ first, count int }

// survey lets all of the crowd ask once, and returns who answered each.
func survey(t *testing.T, l *lab.Lab, w daemon.Transport, to netip.AddrPort, c crowd) []string {
	t.Helper()
	by := make([]string, c.count)
	var group errgroup.Group
	group.SetLimit(workers)
	for i := range by {
		group.Go(func() (err error) {
			by[i], err = ask(l.Outside, daemon.ClientAddr(w.Family, c.first+i), w, to)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return by
}

// some are a part of the clients, another one each time.
func (c crowd) some(count int) crowd {
	return crowd{c.first + rand.IntN(c.count-count+1), count}
}

// of is the part of what was found about the whole crowd.
func (c crowd) of(whole crowd, by []string) []string {
	return by[c.first-whole.first:][:c.count]
}

// moved counts the clients that are answered by another than before.
func moved(before, after []string) (n int) {
	for i := range before {
		if before[i] != after[i] {
			n++
		}
	}
	return n
}

// keep checks that all clients kept their endpoints.
func keep(t *testing.T, before, after []string) {
	t.Helper()
	if n := moved(before, after); n > 0 {
		t.Errorf("%d of %d clients lost their endpoint", n, len(before))
	}
}

// free checks that clients are not bound to what they had. If they are free, at
// most every fourth has it again by chance, with four endpoints or more.
func free(t *testing.T, before, after []string) {
	t.Helper()
	if n := moved(before, after); n < len(before)/3 {
		t.Errorf("only %d of %d clients got another endpoint: they are bound to the one they had", n, len(before))
	}
}

// memory is what a test keeps of every way between its steps.
type memory map[daemon.Transport]*[]string

func newMemory() memory {
	m := memory{}
	for _, w := range daemon.Transports() {
		m[w] = new([]string)
	}
	return m
}

// step runs a part of a test for every way.
func step(t *testing.T, says string, test func(*testing.T, daemon.Transport)) {
	t.Helper()
	t.Run(says, func(t *testing.T) { daemon.ForEachTransport(t, test) })
	if t.Failed() {
		t.FailNow() // what follows builds on it
	}
}

// names are those of hosts.
func names(hosts []*lab.Host) map[string]bool {
	all := map[string]bool{}
	for _, h := range hosts {
		all[h.Name] = true
	}
	return all
}
