package crash

import (
	"errors"
	"flag"
	"io/fs"
	"math/rand/v2"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/desired"
	"kube-vmap/integration/lab"
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

// reader reads the tables of a host.
type reader struct{ *kernel.Kernel }

func newReader(t *testing.T, h *lab.Host) reader {
	t.Helper()
	var r reader
	err := h.Do(func() (err error) { r.Kernel, err = kernel.Open(kernel.Config{}); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // never written to
	return r
}

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

// newScratch returns the reader of a kernel namespace of its own.
func newScratch(t *testing.T) reader {
	t.Helper()
	return newReader(t, labtest.Alone(t))
}

// noServices is a manifest without Services.
const noServices = "# no Services\n"

// makeVersions creates n versions of the churning Services, each from the one before:
// sometimes all of them change, sometimes one or two.
func (s *stage) makeVersions(t *testing.T, n int) {
	t.Helper()
	scratch := newScratch(t)
	var services []daemon.Service
	for len(s.versions) < n {
		services = churning(s.random, s.servers, services, []int{1, 2, 2, 5, 12}[s.random.IntN(5)])
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
	change.NodeAddrs = &s.nodeAddrs
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

var seed = flag.Uint64("seed", 1, "of all that is random")

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(*seed, 0)) }
