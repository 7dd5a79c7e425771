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
	// answer is how long a response may take on a busy machine.
	answer = 5 * time.Second
	// long is an affinity that does not end while a test runs.
	long = 3 * time.Hour
	// workers is how many clients of a transport connect concurrently.
	workers = 4
)

// ask connects and returns the endpoint that responds. With an invalid address, the host
// chooses the source address.
func ask(from *lab.Host, a netip.Addr, w daemon.Transport, to netip.AddrPort) (string, error) {
	got, err := from.AskFresh(w.Protocol, a, to, answer)
	if err == nil && got.Outcome != lab.Answered {
		err = fmt.Errorf("%s asks %s over %s from %s: %s", from, to, w, a, got)
	}
	return got.By, err
}

// A crowd is a range of the clients outside, by number.
type crowd struct{ first, count int }

// survey connects each client of the crowd once, and returns their endpoints.
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

// some returns a random part of the clients.
func (c crowd) some(count int) crowd {
	return crowd{c.first + rand.IntN(c.count-count+1), count}
}

// of returns the crowd's part of the endpoints of the whole crowd.
func (c crowd) of(whole crowd, by []string) []string {
	return by[c.first-whole.first:][:c.count]
}

// moved counts the clients whose endpoint has changed.
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

// free checks that clients have no affinity: with four endpoints or more, at most every
// fourth gets the same endpoint again by chance.
func free(t *testing.T, before, after []string) {
	t.Helper()
	if n := moved(before, after); n < len(before)/3 {
		t.Errorf("only %d of %d clients got another endpoint, as if they had affinity", n, len(before))
	}
}

// memory has the endpoints of clients by transport, between the steps of a test.
type memory map[daemon.Transport]*[]string

func newMemory() memory {
	m := memory{}
	for _, w := range daemon.Transports() {
		m[w] = new([]string)
	}
	return m
}

// step runs a part of a test for every transport.
func step(t *testing.T, name string, test func(*testing.T, daemon.Transport)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { daemon.ForEachTransport(t, test) })
	if t.Failed() {
		t.FailNow() // the following steps depend on it
	}
}

func names(hosts []*lab.Host) map[string]bool {
	all := map[string]bool{}
	for _, h := range hosts {
		all[h.Name] = true
	}
	return all
}
