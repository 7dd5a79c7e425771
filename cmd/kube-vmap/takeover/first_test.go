package takeover

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/wire"
	"kube-vmap/sync"
)

// fakeKernel records batches, and refuses as many foreign changes.
type fakeKernel struct {
	sync.Kernel
	applied []nft.Batch
	refuse  int
}

func (k *fakeKernel) Apply(b nft.Batch) (nft.Applied, error) {
	for _, op := range b {
		if _, foreign := op.(nft.ForeignChange); foreign && k.refuse > 0 {
			k.refuse--
			return nft.Applied{Steps: 1}, &wire.Error{Op: op, Errno: unix.ENOENT}
		}
	}
	k.applied = append(k.applied, b)
	return nft.Applied{Steps: 1}, nil
}

// isForeignBatch reports whether a batch has changes of other programs' objects.
func isForeignBatch(b nft.Batch) bool { return strings.Contains(b.String(), "suspended by kube-vmap") }

func TestFirstBatchSuspendsKubeProxy(t *testing.T) {
	ours := nft.Batch{nft.AddTable{}}
	for name, tc := range map[string]struct {
		change    func(*fake, *fakeKernel)
		suspended bool // in the first batch
		steps     int
	}{
		"alone":                     {func(*fake, *fakeKernel) {}, true, 1},
		"another proxy runs":        {func(f *fake, _ *fakeKernel) { f.otherWhy = "port" }, false, 1},
		"no rules of kube-proxy":    {func(f *fake, _ *fakeKernel) { f.found.Parts = nil }, false, 1},
		"suspended before":          {func(f *fake, _ *fakeKernel) { f.setSuspended(true) }, false, 1},
		"a foreign step is refused": {func(_ *fake, k *fakeKernel) { k.refuse = 1 }, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, k := newFake(t, "default"), &fakeKernel{}
				to := f.takeover(time.Minute)
				tc.change(f, k)
				loop := to.LoopKernel(t.Context(), k)
				for i := range 2 {
					a, err := loop.Apply(ours)
					if err != nil || i == 0 && a.Steps != tc.steps {
						t.Errorf("%d steps, %v; want %d", a.Steps, err, tc.steps)
					}
				}
				if len(k.applied) != 2 || isForeignBatch(k.applied[0]) != tc.suspended || isForeignBatch(k.applied[1]) {
					t.Errorf("applied %v", k.applied)
				}
				if begun := !to.until.IsZero(); tc.suspended && (!begun || !strings.Contains(k.applied[0].String(), "probation until=")) {
					t.Errorf("the probation has begun: %t, in %v", begun, k.applied[0])
				}
			})
		})
	}
}
