package takeover

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
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
	"kube-vmap/sync/follow/listen/listentest"
)

func TestSampleIsOfManyNamespacesAndTheAPIServer(t *testing.T) {
	var all []target
	add := func(namespace, name string, n int) {
		for range n {
			service := model.ServicePortName{ServiceName: model.ServiceName{Namespace: namespace, Name: name}}
			all = append(all, target{clusterIP(len(all)), service})
		}
	}
	add("large", "web", 200)
	add("default", "kubernetes", 2)
	for n := range 9 {
		add(fmt.Sprint("small-", n), "web", 1)
	}
	count := map[string]int{}
	for _, s := range choose(all) {
		count[s.service.Namespace]++
	}
	if len(count) != 11 || count["default"] != 2 || count["large"] != sampleSize-11 {
		t.Errorf("sample by namespace: %v", count)
	}
}

// TestSampleUsesEndpointsOfTheNodeWithLocalPolicy has endpoints of a ClusterIP on other nodes, too. Then
// the Service holds connections, as after a rollout of its only replica: that is no failure.
func TestSampleUsesEndpointsOfTheNodeWithLocalPolicy(t *testing.T) {
	f := newFake(t, "default")
	i := &f.snapshot.Installed[0]
	i.Local = []netip.AddrPort{endpoint(9)}
	for policy, want := range map[model.TrafficPolicy]netip.AddrPort{model.PolicyCluster: endpoint(1), model.PolicyLocal: endpoint(9)} {
		i.Policy = policy
		if got := endpoints(i); !slices.Equal(got, []netip.AddrPort{want}) {
			t.Errorf("policy %v: endpoints %v, want %s", policy, got, want)
		}
	}
	i.Verdict = model.VerdictHold
	if all := installedTargets(f.snapshot.Installed); len(all) > 0 {
		t.Errorf("targets %v", all)
	}
}

// TestCheckThatIsCutShortFindsNothing stops the process during a check.
func TestCheckThatIsCutShortFindsNothing(t *testing.T) {
	f := newFake(t, "default")
	f.refusing[clusterIP(1)] = true
	to := f.takeover(time.Minute)
	to.sample = installedTargets(f.snapshot.Installed)
	ctx, cancel := context.WithCancel(t.Context())
	if got := to.failing(ctx, to.sampleEndpoints(f.snapshot.Installed)); len(got) != 1 {
		t.Errorf("before, failing are %v", got)
	}
	cancel()
	if got := to.failing(ctx, to.sampleEndpoints(f.snapshot.Installed)); len(got) > 0 {
		t.Errorf("failing are %v", got)
	}
}

func TestFirstLoadIsNotCopiedToCountChanges(t *testing.T) {
	var c changes
	c.watch([]target{{at: clusterIP(1)}})
	var change nft.Change
	for n := range 250 {
		at := clusterIP(n)
		match := model.Match{Family: model.IPv4, Addr: at.Addr(), Protocol: model.TCP, Port: at.Port()}
		change.Set = append(change.Set, model.Frontend{Match: match, Kind: model.KindClusterIP, Pool: &model.Pool{}})
	}
	_, batch := nft.Adopt(nft.Config{}, nft.Tables{}, change)
	c.add(batch)
	if !c.has(clusterIP(1).Addr()) || c.has(clusterIP(2).Addr()) {
		t.Errorf("changes: %v", c.changed)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.add(batch)
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 10_000 {
		t.Errorf("%d bytes allocated", after.TotalAlloc-before.TotalAlloc)
	}
}

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
	slots := nft.AddElements{Set: nft.SetID{Kind: nft.SetEndpoints, Slot: 7}}
	f.refusing[endpoint(4)] = true
	for n, at := range []netip.AddrPort{clusterIP(1), clusterIP(2), clusterIP(1)} { // the second is not in the sample
		key := nft.Key{Addr: at.Addr(), Protocol: model.TCP, Port: 80}
		slots.Elements = append(slots.Elements, nft.Element{Key: key, Value: nft.Value{Endpoint: endpoint(n + 2)}})
	}
	if _, err := to.LoopKernel(t.Context(), k).Apply(nft.Batch{ips, services, slots}); err != nil {
		t.Fatal(err)
	}
	if want := []target{{clusterIP(1), service}}; !slices.Equal(to.sample, want) {
		t.Errorf("sample %v, want %v", to.sample, want)
	}
	if !to.direct[endpoint(2)] || to.direct[endpoint(3)] || to.direct[endpoint(4)] {
		t.Errorf("endpoints that answered %v, want %s", to.direct, endpoint(2))
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
			to.stored.removing = true
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
			if tc.suspended && to.stored.removing {
				t.Errorf("%s: what is suspended now has no probation", name)
			}
			if begun := !to.stored.until.IsZero(); tc.suspended && (!begun || !strings.Contains(k.applied[0].String(), "probation until=")) {
				t.Errorf("%s: the probation has begun: %t, in %v", name, begun, k.applied[0])
			}
		})
	}
}

func TestProgramsDoNotSeeChecks(t *testing.T) {
	for name, connect := range map[string]dialFunc{
		"connect": connect,
		"observe": func(ctx context.Context, to netip.AddrPort) error { return observe(ctx, to).err },
	} {
		t.Run(name, func(t *testing.T) {
			listentest.ExpectUnseen(t, func(to netip.AddrPort) error { return connect(t.Context(), to) })
		})
	}
}
