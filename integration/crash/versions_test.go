package crash

import (
	"errors"
	"io/fs"
	"net/netip"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/desired"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync/looptest"
)

// version is one version of the churning Services, and the tables it leads to.
type version struct {
	text   []byte
	tables string
}

type reader struct{ *kernel.Kernel }

// read reads the tables, also if a running proxy owns them.
func (r reader) read(t *testing.T) nft.Tables {
	t.Helper()
	tables, err := r.Read()
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		t.Fatal(err)
	}
	return tables
}

func (r reader) generation(t *testing.T) uint32 {
	t.Helper()
	g, err := r.Generation()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

const noServices = "# no Services\n"

// makeVersions creates n versions of the churning Services, each from the one before:
// sometimes all of them change, sometimes one or two.
func (s *stage) makeVersions(t *testing.T, n int) {
	t.Helper()
	scratch := reader{labtest.Kernel(t, labtest.Alone(t))}
	var services []daemon.Service
	for len(s.versions) < n {
		services = churning(s.random, services, []int{1, 2, 2, 5, 12}[s.random.IntN(5)])
		text := s.folder.Text(services...)
		tables := s.tablesOf(t, scratch, text)
		if last := len(s.versions) - 1; last < 0 || s.versions[last].tables != tables {
			s.versions = append(s.versions, version{text, tables})
		}
	}
	s.without = s.tablesOf(t, scratch, []byte(noServices))
	if n > 0 {
		s.folder.Write("churning", s.versions[0].text)
	}
}

// tablesOf returns what a kernel holds after a first start with the text.
func (s *stage) tablesOf(t *testing.T, scratch reader, text []byte) string {
	t.Helper()
	s.folder.Write("churning", text)
	config, change := desired.Rules(t, s.folder.Dir(), daemon.PodRanges)
	change.NodeAddrs = &[]netip.Addr{s.Node.Addr(model.IPv4), s.Node.Addr(model.IPv6)}
	_, batch := nft.Adopt(config, nft.Tables{}, change)
	if _, err := scratch.Apply(batch); err != nil {
		t.Fatal(err)
	}
	have := scratch.read(t)
	for _, f := range model.Families {
		if _, err := scratch.Apply(nft.Batch{nft.DeleteTable{Family: f}}); err != nil {
			t.Fatal(err)
		}
	}
	return looptest.Summary(have)
}
