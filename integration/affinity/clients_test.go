package affinity

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
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

// newLab is a lab with servers in all pods, and a crowd outside.
func newLab(t *testing.T, pods, remotePods int) (l *lab.Lab, servers []*lab.Host) {
	t.Helper()
	l = labtest.New(t, lab.Options{Pods: pods, RemotePods: remotePods})
	daemon.AddClients(t, l)
	daemon.RouteServices(t, l, l.Node)
	for _, pod := range append(l.Pods[:pods:pods], l.RemotePods...) {
		if err := pod.ServeAll(daemon.TargetPort); err != nil {
			t.Fatal(err)
		}
		servers = append(servers, pod.Host)
	}
	return l, servers
}

// asked counts questions. No port is used again soon: to connection tracking,
// that would be the connection from before, with the endpoint that it had.
var asked atomic.Uint32

func freshPort() uint16 { return 21000 + uint16(asked.Add(1)%44000) }

// ask asks over a new connection, and returns who answered. An invalid address
// leaves it to the host which of its own to ask from.
func ask(from *lab.Host, a netip.Addr, w daemon.Transport, to netip.AddrPort) (string, error) {
	got, err := from.AskFrom(w.Protocol, netip.AddrPortFrom(a, freshPort()), to, answer)
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
	var next atomic.Int64
	var group errgroup.Group
	for range workers {
		group.Go(func() error {
			for {
				i := int(next.Add(1) - 1)
				if i >= c.count {
					return nil
				}
				var err error
				if by[i], err = ask(l.Outside, daemon.ClientAddr(w.Family, c.first+i), w, to); err != nil {
					return err
				}
			}
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
