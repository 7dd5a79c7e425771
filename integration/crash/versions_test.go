package crash

import (
	"errors"
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
)

// version is one text of the churning Services, and what it leads to.
type version struct {
	text    []byte
	meaning string
}

// reader reads what the kernel of a host holds.
type reader struct{ *kernel.Kernel }

func newReader(t *testing.T, h *lab.Host) reader {
	t.Helper()
	var r reader
	err := h.Do(func() (err error) { r.Kernel, err = kernel.Open(kernel.Config{}); return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // only read from
	return r
}

// read reads the tables. That they belong to a proxy which lives is no reason not
// to be read.
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

// newScratch is a kernel that nobody else uses.
func newScratch(t *testing.T) reader {
	t.Helper()
	return newReader(t, labtest.Alone(t))
}

// noServices is a manifest without any.
const noServices = "# no Services\n"

// makeVersions makes n versions of the churning Services, each out of the one before:
// sometimes all of them change, sometimes one or two.
func (s *stage) makeVersions(t *testing.T, n int) {
	t.Helper()
	scratch := newScratch(t)
	var services []daemon.Service
	for len(s.versions) < n {
		services = churning(s.random, s.servers, services, []int{1, 2, 2, 5, 12}[s.random.IntN(5)])
		text := s.folder.Text(services...)
		meaning := s.leadsTo(t, scratch, text)
		if last := len(s.versions) - 1; last < 0 || s.versions[last].meaning != meaning {
			s.versions = append(s.versions, version{text, meaning})
		}
	}
	s.without = s.leadsTo(t, scratch, []byte(noServices))
	if n > 0 {
		s.folder.Write("churning", s.versions[0].text)
	}
}

// leadsTo is what a kernel holds after a first start with the text.
func (s *stage) leadsTo(t *testing.T, scratch reader, text []byte) string {
	t.Helper()
	s.folder.Write("churning", text)
	config, change := desired.Rules(t, s.folder.Dir(), daemon.PodRanges)
	change.NodeAddrs = &s.nodeAddrs
	_, batch := nft.Adopt(config, nft.Tables{}, change)
	if _, err := scratch.Apply(batch); err != nil {
		t.Fatal(err)
	}
	have := scratch.read(t)
	for _, flaw := range flaws(have) {
		t.Errorf("the state to compare with: %s", flaw)
	}
	for _, f := range model.Families {
		if _, err := scratch.Apply(nft.Batch{nft.DeleteTable{Family: f}}); err != nil {
			t.Fatal(err)
		}
	}
	return meaningOf(have)
}

// newRandom makes chance that a failed test's log says how to have again.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
