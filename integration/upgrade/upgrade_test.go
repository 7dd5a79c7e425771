package upgrade

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/clients"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/desired"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/wire"
	"kube-vmap/sync/looptest"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// affinity is longer than any test.
	affinity = 3 * time.Hour
	// pace is the time between two questions of a client.
	pace = 20 * time.Millisecond
	// least is how many connections clients make over each transport in each step.
	least = 20
)

// versions are those with a stored rule set. The last one is built for the downgrade, so it must be
// a commit in git, or a tag.
var versions = []fixture{"v0.1.0", "v0.2.0", "bc79650"}

// forgetting are the versions of which an upgrade forgets clients, as CHANGELOG.md says.
var forgetting = []fixture{"v0.1.0"}

// A scene is a lab with servers and the Services of the fixtures.
type scene struct {
	*lab.Lab
	t        *testing.T
	kernel   *kernel.Kernel
	services []daemon.Service
	folder   *daemon.Folder
	started  *daemon.Daemon
}

func newScene(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	l, servers := daemon.NewLab(t, 3, 1)
	s := &scene{Lab: l, t: t, services: newServices(l, []*lab.Host{servers[0], servers[1], servers[3]}), folder: daemon.NewFolder(t, l)}
	s.folder.Put("services", s.services...)
	s.kernel = labtest.Kernel(t, l.Node.Host)
	return s
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestUpgradeAndDowngradeKeepState begins with the rule set of each version. Only the last one is
// built from git, for a downgrade.
func TestUpgradeAndDowngradeKeepState(t *testing.T) {
	if stored, err := os.ReadDir("testdata"); err != nil || len(stored) != len(versions) {
		t.Errorf("the versions are %v, %v; stored are rule sets of %v", versions, err, stored)
	}
	for i, f := range versions {
		t.Run(string(f), func(t *testing.T) {
			s := newScene(t)
			s.load(f)
			before := s.summary()
			load := clients.Start(t, s.Lab, s.remembered(f), clients.Options{Pod: s.Pods[2], Pace: pace})
			counts := s.awaitConnections(nil)
			s.start("")
			counts = s.awaitConnections(counts)
			if i == len(versions)-1 {
				t.Run("and back", func(t *testing.T) {
					program := buildVersion(t, f)
					s.t = t
					s.started.Stop()
					s.start(program)
					s.awaitConnections(counts)
					if after := s.summary(); after != before {
						t.Errorf("after the downgrade, the tables are\n%s\nand before the upgrade they were\n%s", after, before)
					}
					s.started.Stop()
				})
			}
			load.Stop(t, least)
		})
	}
}

// remembered returns the Services, without session affinity if an upgrade forgets clients.
func (s *scene) remembered(f fixture) []daemon.Service {
	all := slices.Clone(s.services)
	for i := range all {
		if slices.Contains(forgetting, f) {
			all[i].Affinity = 0
		}
	}
	return all
}

func (s *scene) start(program string) {
	s.t.Helper()
	launch := daemon.Launch{Node: s.Node, Folder: s.folder}
	if program != "" {
		launch.By = []string{"sh", "-c", `program=$0; shift; exec "$program" "$@"`, program}
	}
	s.started = launch.Start(s.t)
	s.started.AwaitMessage("ready")
}

// A pair is a counted pair of original destination and endpoint.
type pair struct {
	to       model.Match
	endpoint netip.AddrPort
}

// awaitConnections returns how many connections were counted, once each transport has enough
// new ones. Earlier counts must still be there.
func (s *scene) awaitConnections(before map[pair]uint64) map[pair]uint64 {
	s.t.Helper()
	var now map[pair]uint64
	eventually.Succeeds(s.t, "clients connect", func() error {
		now = s.counts()
		more := map[daemon.Transport]uint64{}
		for p, n := range now {
			more[daemon.Transport{Protocol: p.to.Protocol, Family: p.to.Family}] += n - min(n, before[p])
		}
		for _, w := range daemon.Transports() {
			if n := more[w]; n < least {
				return fmt.Errorf("%d new connections of %s", n, w)
			}
		}
		for p, n := range before { // some are missing while the kernel's hash table grows
			if now[p] < n {
				return fmt.Errorf("%d connections to %s at %s were counted, and now %d", n, p.to, p.endpoint, now[p])
			}
		}
		return nil
	})
	return now
}

func (s *scene) counts() map[pair]uint64 {
	s.t.Helper()
	out := map[pair]uint64{}
	for _, f := range model.Families {
		list, err := s.kernel.Connections(f)
		s.must(err)
		for _, c := range list {
			out[pair{c.Destination, c.Endpoint}] = c.Connections
		}
	}
	return out
}

// summary returns the tables as text, without what packets add.
func (s *scene) summary() string {
	s.t.Helper()
	tables, err := s.kernel.Read()
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		s.t.Fatal(err)
	}
	for f, table := range tables {
		table.Counters = [nft.Counters]bool{} // of which older versions know one
		for _, kind := range []nft.SetKind{nft.SetAffinity, nft.SetConnections} {
			for _, local := range []bool{false, true} {
				delete(table.Sets, nft.SetID{Family: model.Family(f), Kind: kind, Local: local}.Name())
			}
		}
	}
	return looptest.Summary(tables)
}

var record = flag.String("record", "", "write the rule set of this version to testdata")

// A fixture is the rule set of a version, for the Services of [newServices].
type fixture string

func (f fixture) path() string { return filepath.Join("testdata", string(f), "ruleset.batch") }

// TestRecord writes the fixture of this version.
func TestRecord(t *testing.T) {
	if *record == "" {
		t.Skip("cannot be had without the flag -record: the rule set of this version")
	}
	s := newScene(t)
	f := fixture(*record)
	s.must(os.MkdirAll(filepath.Dir(f.path()), 0o755))
	config, change := desired.Rules(t, s.folder.Dir(), daemon.PodRanges)
	addrs := []netip.Addr{s.Node.Addr(model.IPv4), s.Node.Addr(model.IPv6)}
	change.NodeAddrs = &addrs
	_, batch := nft.Adopt(config, nft.Tables{}, change)
	e, err := wire.Encode(batch)
	s.must(err)
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	s.must(err)
	_, err = w.Write(e.Bytes)
	s.must(err)
	s.must(w.Close())
	s.must(os.WriteFile(f.path(), packed.Bytes(), 0o644))
}

// load loads a fixture on the node, as a version leaves it that was stopped: where the
// kernel supports it, in tables that have lost their owner.
func (s *scene) load(f fixture) {
	s.t.Helper()
	packed, err := os.ReadFile(f.path())
	s.must(err)
	r, err := gzip.NewReader(bytes.NewReader(packed))
	s.must(err)
	batch, err := io.ReadAll(r)
	s.must(err)
	protect, err := s.kernel.SupportsOwner()
	s.must(err)
	tables, err := wire.Encode(nft.Batch{
		nft.AddTable{Family: model.IPv4, Protected: protect}, nft.AddTable{Family: model.IPv6, Protected: protect},
	})
	s.must(err)
	s.must(s.Node.Do(func() error { return send(tables.Bytes, batch) }))
}

// send sends transactions to nf_tables from one socket. The kernel handles a message before
// sendto returns; whether it accepted it shows in the connections that are counted then.
func send(transactions ...[]byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 4<<20); err != nil {
		return err
	}
	for _, b := range transactions {
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return err
		}
	}
	return nil
}

// newServices returns the Services of every fixture: every kind of address, session affinity,
// Local policies, source ranges, and endpoints that are chosen by a hash. They stay as they are
// for the fixtures that exist.
func newServices(l *lab.Lab, servers []*lab.Host) []daemon.Service {
	var ranges []string
	for _, h := range []*lab.Host{l.Outside, l.Node.Host, l.Pods[0].Host} {
		for _, f := range model.Families {
			ranges = append(ranges, netip.PrefixFrom(h.Addr(f), h.Addr(f).BitLen()-8).Masked().String())
		}
	}
	return []daemon.Service{
		{Name: "plain", Number: 1, Endpoints: servers, Kinds: daemon.Kinds},
		{Name: "sticky", Number: 2, Endpoints: servers, Kinds: daemon.Kinds, Affinity: affinity},
		{Name: "local", Number: 3, Endpoints: servers, Kinds: daemon.Kinds, LocalInside: true, LocalOutside: true},
		{Name: "ranges", Number: 4, Endpoints: servers[:1], Kinds: daemon.Kinds, Sources: ranges},
		{Name: "hashed", Number: 5, Endpoints: servers, Kinds: daemon.Kinds, Scheduler: "sh"},
	}
}

// buildVersion builds the program of a version from git, and returns its path. It skips the
// test if the repository does not have the commit.
func buildVersion(t *testing.T, f fixture) string {
	t.Helper()
	tree := t.TempDir()
	root, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--show-toplevel").Output()
	if err == nil {
		err = exec.CommandContext(t.Context(), "git", "cat-file", "-e", string(f)+"^{commit}").Run()
	}
	if err != nil {
		t.Skipf("the source of %s cannot be had: %v", f, err)
	}
	program := filepath.Join(tree, "kube-vmap")
	build := fmt.Sprintf("git -C %q archive %q go.mod go.sum cmd model nft sync | tar -x && go build -ldflags -w -o %q ./cmd/kube-vmap",
		strings.TrimSpace(string(root)), f, program)
	c := exec.CommandContext(t.Context(), "sh", "-c", build)
	c.Dir = tree
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	return program
}
