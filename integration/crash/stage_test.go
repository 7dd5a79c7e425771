package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/clients"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/sync/looptest"
)

var (
	kills    = flag.Int("kills", 16, "how often the proxy is killed")
	duration = flag.Duration("soak", 6*time.Second, "how long Services change beside others")
	seed     = flag.Uint64("seed", 1, "of all that is random")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(daemon.Main(m))
}

// patience is the timeout of what must happen.
const patience = 2 * time.Minute

// stage is a node with a folder of manifests. Versions of the churning Services are
// written in turn, in a sequence in which they repeat.
type stage struct {
	*lab.Lab
	folder   *daemon.Folder
	flags    []string // of each start
	kernel   reader
	random   daemon.Random
	servers  []*lab.Host
	stable   []daemon.Service
	versions []version
	without  string // the tables of the stable Services only
	// written and found are the positions in the sequence that were written last, and last
	// found in the kernel.
	written, found int
}

// newStage returns a stage on which the proxy has run once with the stable Services. It
// has so many versions of the others, and writes the first.
func newStage(t *testing.T, versions int, flags ...string) *stage {
	t.Helper()
	if testing.Short() { // or else kills are aimed by the time of one start
		t.Parallel()
	}
	s := &stage{Lab: labtest.New(t, lab.Options{Pods: local + 1, RemotePods: 2})}
	daemon.RouteServices(t, s.Lab, s.Node)
	s.servers = daemon.Serve(t, mostPorts, append(s.Pods[:local:local], s.RemotePods...)...)
	s.random = newRandom(rand.New(rand.NewPCG(*seed, 0)), s.servers)
	s.folder = daemon.NewFolder(t, s.Lab)
	s.kernel = reader{labtest.Kernel(t, s.Node.Host)}
	s.stable = stableServices(s.servers)
	s.folder.Put("stable", s.stable...)
	s.flags = flags
	s.start(t).Stop()
	s.makeVersions(t, versions)
	return s
}

// start starts the proxy and waits until it is ready.
func (s *stage) start(t *testing.T) *daemon.Daemon {
	t.Helper()
	return daemon.Start(t, s.Node, s.folder, s.flags...)
}

// launch starts the proxy without waiting.
func (s *stage) launch(t *testing.T) *daemon.Daemon {
	t.Helper()
	return daemon.Launch{Node: s.Node, Folder: s.folder, Flags: s.flags}.Start(t)
}

func (s *stage) at(position int) *version { return &s.versions[position%len(s.versions)] }

func (s *stage) write() {
	s.written++
	s.folder.Write("churning", s.at(s.written).text)
}

// checkKernel checks that the kernel holds exactly one version, and none older than the
// last time.
func (s *stage) checkKernel(t *testing.T) {
	t.Helper()
	tables := s.tables(t)
	for at := s.found; at <= s.written; at++ {
		if s.at(at).tables == tables || unreached(s.at(at).tables, tables) {
			s.found = at
			return
		}
	}
	t.Errorf("the kernel holds none of the versions %d to %d; difference from the first (-version +kernel)\n%s",
		s.found, s.written, difference(s.at(s.found).tables, tables))
}

// unreached reports whether all that a kernel holds more than a version are chains and empty sets of
// other names, which have a transaction before the elements that lead there.
func unreached(version, have string) bool {
	want := strings.Split(version, "\n")
	for line := range strings.SplitSeq(have, "\n") {
		if len(want) > 0 && line == want[0] {
			want = want[1:]
			continue
		}
		object := strings.SplitAfterN(line, " ", 3) // chain, its name, and the rest
		if len(object) < 3 || object[0] != "chain " && object[0] != "set " || strings.Contains(version, "\n"+object[0]+object[1]) {
			return false
		}
	}
	return len(want) == 0
}

// tables returns what the kernel holds.
func (s *stage) tables(t *testing.T) string {
	t.Helper()
	return looptest.Summary(s.kernel.read(t))
}

// awaitVersion waits until the kernel holds the version that was written last.
func (s *stage) awaitVersion(t *testing.T) {
	t.Helper()
	eventually.Succeeds(t, "the kernel holds the last version", func() error {
		if tables := s.tables(t); tables != s.at(s.written).tables {
			return fmt.Errorf("version %d is not installed (-version +kernel):\n%s", s.written, difference(s.at(s.written).tables, tables))
		}
		s.found = s.written
		return nil
	})
}

func (s *stage) startClients(t *testing.T) *clients.Clients {
	t.Helper()
	return clients.Start(t, s.Lab, s.stable, clients.Options{Pod: s.Pods[len(s.Pods)-1], Pace: 20 * time.Millisecond})
}

// startHeldClients starts clients of the Service whose endpoint comes and goes. They may wait, but none
// is refused.
func (s *stage) startHeldClients(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group errgroup.Group
	var counts [lab.Reset + 1]atomic.Int32
	for _, w := range daemon.Transports() {
		for _, from := range []*lab.Host{s.Pods[len(s.Pods)-1].Host, s.Outside} {
			group.Go(func() error {
				for n := 0; ctx.Err() == nil; n++ {
					<-time.After(10 * time.Millisecond)
					kind := daemon.Kinds[n%len(daemon.Kinds)]
					a, err := from.AskFresh(w.Protocol, netip.Addr{}, heldService().AddrPort(s.Node, w.Family, kind, 0), 20*time.Millisecond)
					if counts[a.Outcome].Add(1); err != nil || a.Outcome != lab.Answered && a.Outcome != lab.TimedOut {
						return errors.Join(err, fmt.Errorf("%s to the %s over %s: %s", from.Name, kind, w, a))
					}
				}
				return nil
			})
		}
	}
	t.Cleanup(cancel)
	return func() {
		cancel()
		err := group.Wait()
		answered, waited := counts[lab.Answered].Load(), counts[lab.TimedOut].Load()
		if t.Logf("of the Service that holds: %d answered, %d waited", answered, waited); err != nil || answered == 0 || waited == 0 {
			t.Errorf("%v", err)
		}
	}
}

// shown is how many lines of a difference are reported.
const shown = 40

// difference returns the lines that only one of two texts has, whatever their order; empty
// if there are none.
func difference(want, have string) string {
	lines := map[string]int{}
	for line := range strings.Lines(want) {
		lines[line]--
	}
	for line := range strings.Lines(have) {
		lines[line]++
	}
	maps.DeleteFunc(lines, func(_ string, n int) bool { return n == 0 })
	var out strings.Builder
	for i, line := range slices.Sorted(maps.Keys(lines)) {
		if i == shown {
			fmt.Fprintf(&out, "and %d more lines\n", len(lines)-shown)
			break
		}
		fmt.Fprintf(&out, "%+d %s", lines[line], line)
	}
	return out.String()
}
