package takeover

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
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

// TestSampleIsWhatAnswersBeforeTheFirstCommit has a batch with ClusterIPs, one of which does not
// answer, and with a UDP port and an address that are none.
func TestSampleIsWhatAnswersBeforeTheFirstCommit(t *testing.T) {
	f, k := newFake(t, "default", "a"), &fakeKernel{}
	f.refusing[clusterIP(2)] = true
	to := f.takeover(time.Minute)
	to.dial = func(ctx context.Context, at netip.AddrPort) error {
		if len(k.applied) > 0 {
			t.Errorf("connects to %s after the first commit", at)
		}
		return f.dial(ctx, at)
	}
	service := f.snapshot.Installed[0].Service
	ips, services := nft.AddElements{Set: nft.SetID{Kind: nft.SetClusterIPs}}, nft.AddElements{Set: nft.SetID{Kind: nft.SetServices}}
	for n := range 2 {
		ips.Elements = append(ips.Elements, nft.Element{Key: nft.Key{Addr: clusterIP(n + 1).Addr()}})
	}
	for _, key := range []nft.Key{
		{Addr: clusterIP(1).Addr(), Protocol: model.TCP, Port: 80},
		{Addr: clusterIP(1).Addr(), Protocol: model.UDP, Port: 53},
		{Addr: clusterIP(2).Addr(), Protocol: model.TCP, Port: 80},
		{Addr: clusterIP(3).Addr(), Protocol: model.TCP, Port: 80},
	} {
		services.Elements = append(services.Elements, nft.Element{Key: key, Service: &service})
	}
	if _, err := to.LoopKernel(t.Context(), k).Apply(nft.Batch{ips, services}); err != nil {
		t.Fatal(err)
	}
	if want := []target{{clusterIP(1), service}}; !slices.Equal(to.sample, want) {
		t.Errorf("sample %v, want %v", to.sample, want)
	}
}

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
		synctest.Test(t, func(t *testing.T) {
			f, k := newFake(t, "default"), &fakeKernel{}
			to := f.takeover(time.Minute)
			tc.change(f, k)
			to.removing = true
			loop := to.LoopKernel(t.Context(), k)
			for i := range 2 {
				a, err := loop.Apply(ours)
				if err != nil || i == 0 && a.Steps != tc.steps {
					t.Errorf("%s: %d steps, %v; want %d", name, a.Steps, err, tc.steps)
				}
			}
			if len(k.applied) != 2 || isForeignBatch(k.applied[0]) != tc.suspended || isForeignBatch(k.applied[1]) {
				t.Errorf("%s: applied %v", name, k.applied)
			}
			if tc.suspended && to.removing {
				t.Errorf("%s: what is suspended now has no probation", name)
			}
			if begun := !to.until.IsZero(); tc.suspended && (!begun || !strings.Contains(k.applied[0].String(), "probation until=")) {
				t.Errorf("%s: the probation has begun: %t, in %v", name, begun, k.applied[0])
			}
		})
	}
}
