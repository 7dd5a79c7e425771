package upgrade

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/desired"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

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
