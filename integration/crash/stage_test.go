package crash

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"kube-vmap/integration/clients"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// stage is a node with a folder of manifests and a kernel to look at. Versions of
// the churning Services are written in turn; where they come again, they stand at
// another place of that sequence.
type stage struct {
	*lab.Lab
	folder    *daemon.Folder
	flags     []string // of each start
	kernel    reader
	random    *rand.Rand
	servers   []*lab.Host
	staying   []daemon.Service
	versions  []version
	without   string // what the Services that stay lead to by themselves
	nodeAddrs []netip.Addr
	// written and found are the places in the sequence that were written last, and
	// that the kernel was found at.
	written, found int
}

// newStage makes a stage on which the proxy has run once, with the Services that
// stay. There are as many versions of the others, of which the first is written.
func newStage(t *testing.T, versions int, flags ...string) *stage {
	t.Helper()
	s := &stage{
		Lab:    labtest.New(t, lab.Options{Pods: local + 1, RemotePods: 2}),
		random: newRandom(t),
	}
	daemon.RouteServices(t, s.Lab, s.Node)
	s.servers = []*lab.Host{}
	for _, p := range append(s.Pods[:local:local], s.RemotePods...) {
		if err := p.ServeAll(daemon.TargetPort); err != nil {
			t.Fatal(err)
		}
		s.servers = append(s.servers, p.Host)
	}
	s.folder = daemon.NewFolder(t, s.Lab)
	s.kernel = newReader(t, s.Node.Host)
	s.staying = staying(s.servers)
	s.folder.Put("staying", s.staying...)
	s.flags = flags
	s.start(t).Stop()
	s.nodeAddrs = nodeAddrsIn(s.kernel.read(t))
	s.makeVersions(t, versions)
	return s
}

// start starts the proxy and waits until it is ready.
func (s *stage) start(t *testing.T) *daemon.Daemon {
	t.Helper()
	return daemon.Start(t, s.Node, s.folder, s.flags...)
}

// launch starts the proxy and waits for nothing. What goes before is a program that
// becomes the proxy.
func (s *stage) launch(t *testing.T, by ...string) *daemon.Daemon {
	t.Helper()
	return daemon.Launch{Node: s.Node, Folder: s.folder, Flags: s.flags, By: by}.Start(t)
}

// nodeAddrsIn are the addresses that serve node ports. Which ones there are is
// for integration/addresses to test.
func nodeAddrsIn(have nft.Tables) (addrs []netip.Addr) {
	for _, f := range model.Families {
		for _, e := range have[f].Sets[nft.SetID{Family: f, Kind: nft.SetNodeIPs}.Name()].Elements {
			addrs = append(addrs, e.Key.Addr)
		}
	}
	return addrs
}

// at is the version at a place in the sequence.
func (s *stage) at(place int) *version { return &s.versions[place%len(s.versions)] }

// write writes the next version.
func (s *stage) write() {
	s.written++
	s.folder.Write("churning", s.at(s.written).text)
}

// whole checks that the kernel holds exactly one version, and not one that is
// older than that of the last time.
func (s *stage) whole(t *testing.T) {
	t.Helper()
	have := s.kernel.read(t)
	found := flaws(have)
	for _, flaw := range found[:min(len(found), shown)] {
		t.Error(flaw)
	}
	meaning := meaningOf(have)
	for at := s.found; at <= s.written; at++ {
		if s.at(at).meaning == meaning {
			s.found = at
			return
		}
	}
	t.Errorf("the kernel holds none of the versions %d to %d; apart from the first it is (-version +kernel)\n%s",
		s.found, s.written, difference(s.at(s.found).meaning, meaning))
}

// meaning is what the kernel holds.
func (s *stage) meaning(t *testing.T) string {
	t.Helper()
	return meaningOf(s.kernel.read(t))
}

// settles waits until the kernel holds the version that was written last.
func (s *stage) settles(t *testing.T) {
	t.Helper()
	eventually.Succeeds(t, "the kernel holds what the manifests say", func() error {
		have := s.kernel.read(t)
		if meaning := meaningOf(have); meaning != s.at(s.written).meaning {
			return fmt.Errorf("version %d is not there (-version +kernel):\n%s", s.written, difference(s.at(s.written).meaning, meaning))
		}
		if found := flaws(have); len(found) > 0 {
			return fmt.Errorf("%d flaws, such as: %s", len(found), found[0])
		}
		s.found = s.written
		return nil
	})
}

// ask starts clients of the Services that stay.
func (s *stage) ask(t *testing.T) *clients.Clients {
	t.Helper()
	return clients.Start(t, s.Lab, s.staying, clients.Options{
		Pod: s.Pods[len(s.Pods)-1], Pace: 20 * time.Millisecond, AllFlows: true,
	})
}
