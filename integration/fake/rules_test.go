// Package fake tests the fake kernel of nft/kernel/kerneltest against the real one, and runs
// the scripts of package sync, which that runs on the fake, on the real one.
package fake

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"syscall"
	"testing"
	"time"
	"unique"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/nft/wire"
	"kube-vmap/sync"
	"kube-vmap/sync/looptest"
)

// The tables of every case: a Service with two endpoints and a load balancer address with
// source ranges, one without endpoints, one with session affinity, and the range of ClusterIPs.
var (
	web     = model.Match{Addr: netip.MustParseAddr("10.96.0.1"), Protocol: model.TCP, Port: 80}
	app     = model.Match{Addr: netip.MustParseAddr("10.96.0.2"), Protocol: model.TCP, Port: 80}
	shop    = model.Match{Addr: netip.MustParseAddr("10.96.0.3"), Protocol: model.TCP, Port: 80}
	vip     = model.Match{Addr: netip.MustParseAddr("203.0.113.1"), Protocol: model.TCP, Port: 80}
	ranges  = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	service = model.ServicePortName{ServiceName: model.ServiceName{Namespace: "default", Name: "web"}, Protocol: model.TCP}
	pool    = &model.Pool{
		Key: web, Cluster: []netip.AddrPort{netip.MustParseAddrPort("10.244.1.2:80"), netip.MustParseAddrPort("10.244.1.3:80")},
	}
	sticky = &model.Pool{
		Key: shop, Affinity: time.Hour, Cluster: []netip.AddrPort{netip.MustParseAddrPort("10.244.1.4:80")},
	}
	content = nft.Change{Set: []model.Frontend{
		{Match: web, Service: service, Masquerade: model.MasqueradeOffPod, Pool: pool},
		{
			Match: vip, Service: service, Kind: model.KindLoadBalancerIP, Masquerade: model.MasqueradeAlways, Pool: sticky,
			Restricted: true, Sources: []netip.Prefix{netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.0.2.0/24")},
		},
		{Match: app, Service: service, Verdict: model.VerdictReject, Pool: &model.Pool{Key: app}},
		{Match: shop, Service: service, Pool: sticky},
	}, ServiceCIDRs: &ranges}
	config = nft.Config{
		MasqueradeMark: nft.DefaultMasqueradeMark, CountConnections: true,
		Pods: [...]netip.Prefix{model.IPv4: netip.MustParsePrefix("10.244.0.0/16"), model.IPv6: {}},
	}
)

// compareKeys lets cmp compare types with unexported fields.
var compareKeys = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b unique.Handle[netip.Prefix]) bool { return a == b }),
}

// Shorthands for IPv4.
func chain(kind nft.ChainKind, n uint32) nft.ChainID { return nft.ChainID{Kind: kind, N: n} }
func set(kind nft.SetKind, slot uint16) nft.SetID    { return nft.SetID{Kind: kind, Slot: slot} }

func flush(id nft.ChainID) nft.Op       { return nft.FlushChain{Name: id.Name()} }
func deleteChain(id nft.ChainID) nft.Op { return nft.DeleteChain{Name: id.Name()} }
func deleteSet(id nft.SetID) nft.Op     { return nft.DeleteSet{Name: id.Name()} }

func add(id nft.SetID, e ...nft.Element) nft.Op    { return nft.AddElements{Set: id, Elements: e} }
func remove(id nft.SetID, e ...nft.Element) nft.Op { return nft.DeleteElements{Set: id, Elements: e} }

// to returns an element of the map services, or of a map of endpoints.
func to(m model.Match, v nft.Value) nft.Element {
	return nft.Element{Key: nft.Key{Addr: m.Addr, Protocol: m.Protocol, Port: m.Port}, Value: v, Service: &service}
}

func goTo(id nft.ChainID) nft.Value { return nft.Value{Verdict: nft.VerdictGoto, Chain: id} }

func endpoint(a string) nft.Value { return nft.Value{Endpoint: netip.MustParseAddrPort(a)} }

func prefix(p string) nft.Element {
	parsed := netip.MustParsePrefix(p)
	return nft.Element{Key: nft.Key{Addr: parsed.Addr(), Bits: uint8(parsed.Bits())}}
}

// source returns an element that permits a range to use the load balancer's address.
func source(p string) nft.Element {
	return nft.Element{Key: nft.Key{
		Addr: vip.Addr, Protocol: vip.Protocol, Port: vip.Port, Source: unique.Make(netip.MustParsePrefix(p)),
	}}
}

// rule returns the first rule of a chain in the tables of every case.
func rule(id nft.ChainID) nft.Op {
	_, all := nft.Adopt(config, nft.Tables{}, content)
	for _, op := range all {
		if r, ok := op.(nft.AddRule); ok && r.Chain == id {
			return r
		}
	}
	panic("fake: no rule in chain " + id.Name())
}

var (
	services = set(nft.SetServices, 0)
	cidrs    = set(nft.SetServiceCIDRs, 0)
	slot1    = set(nft.SetEndpoints, 1)
	slot9    = set(nft.SetEndpoints, 9) // does not exist

	sources  = set(nft.SetAllowedSources, 24)
	affinity = set(nft.SetAffinity, 0)
	remember = nft.ChainNamed(model.IPv4, "sticky-1-3600s")
	forget   = chain(nft.ChainStickyEndpoint, 0)
	recall   = chain(nft.ChainStickyClient, 0)

	cluster2 = chain(nft.ChainCluster, 2)
	balance2 = chain(nft.ChainBalance, 2)
	pod1     = chain(nft.ChainEndpoint, 1)

	toWeb   = to(web, goTo(cluster2))
	inSlot1 = to(web, endpoint("10.244.1.3:80"))
)

var cases = []struct {
	name  string
	batch nft.Batch
	want  syscall.Errno
	// service is true if the error names the Service of the refused element.
	service bool
}{
	{"a chain that a rule jumps to cannot be deleted", nft.Batch{deleteChain(balance2)}, unix.EBUSY, false},
	{"a chain in an anonymous map cannot be deleted", nft.Batch{deleteChain(pod1)}, unix.EBUSY, false},
	{"a chain that an element leads to cannot be deleted", nft.Batch{flush(cluster2), deleteChain(cluster2)}, unix.EBUSY, false},
	{"a chain is deleted with its rules", nft.Batch{remove(services, toWeb), deleteChain(cluster2)}, 0, false},
	{"chains can be deleted from the top", nft.Batch{remove(services, toWeb), deleteChain(cluster2), deleteChain(balance2), deleteChain(pod1)}, 0, false},
	{"chains cannot be deleted from the bottom", nft.Batch{remove(services, toWeb), deleteChain(pod1), deleteChain(balance2)}, unix.EBUSY, false},
	{"a flushed chain leads nowhere", nft.Batch{flush(balance2), deleteChain(pod1)}, 0, false},
	{"a base chain is deleted with its rules", nft.Batch{deleteChain(chain(nft.ChainNATOutput, 0))}, 0, false},
	{"a missing chain cannot be deleted", nft.Batch{deleteChain(chain(nft.ChainBalance, 9))}, unix.ENOENT, false},
	{"a missing chain cannot be flushed", nft.Batch{flush(chain(nft.ChainBalance, 9))}, unix.ENOENT, false},
	{"a chain may be added again", nft.Batch{nft.AddChain{Chain: balance2}, nft.AddChain{Chain: chain(nft.ChainNATOutput, 0)}}, 0, false},
	{"a chain may be flushed by what adds it", nft.Batch{nft.AddTable{}, nft.AddChain{Chain: chain(nft.ChainBalance, 9)}, flush(chain(nft.ChainBalance, 9))}, 0, false},

	{"a set that a rule uses cannot be deleted", nft.Batch{deleteSet(slot1)}, unix.EBUSY, false},
	{"an unused set is deleted with its elements", nft.Batch{flush(pod1), deleteSet(slot1)}, 0, false},
	{"a set is replaced, and its rule with it", nft.Batch{
		flush(pod1), deleteSet(slot1), nft.AddSet{Set: slot1, Size: 7}, rule(pod1), add(slot1, inSlot1),
	}, 0, false},
	{"the elements of a deleted verdict map lead to no chain", nft.Batch{
		flush(chain(nft.ChainDispatch, 0)), deleteSet(services), deleteChain(cluster2),
	}, 0, false},
	{"a missing set cannot be deleted", nft.Batch{deleteSet(slot9)}, unix.ENOENT, false},
	{"a set may be added again, and keeps its elements", nft.Batch{nft.AddSet{Set: slot1, Size: 700}}, 0, false},
	{"a rule needs its chain", nft.Batch{deleteChain(chain(nft.ChainNATOutput, 0)), rule(chain(nft.ChainNATOutput, 0))}, unix.ENOENT, false},
	{"a rule needs its set", nft.Batch{flush(pod1), deleteSet(slot1), rule(pod1)}, unix.ENOENT, false},
	{"a rule needs the chains of its anonymous map", nft.Batch{flush(balance2), deleteChain(pod1), rule(balance2)}, unix.ENOENT, false},

	{"an element may be added again", nft.Batch{add(services, toWeb), add(slot1, inSlot1)}, 0, false},
	{"an element keeps its comment when added again", nft.Batch{
		add(services, nft.Element{Key: toWeb.Key, Value: toWeb.Value, Comment: "default/other"}),
	}, 0, false},
	{"an element may not be added with another verdict", nft.Batch{add(services, to(web, goTo(balance2)))}, unix.EEXIST, true},
	{"an element may not be added with another endpoint", nft.Batch{add(slot1, to(web, endpoint("10.244.1.9:80")))}, unix.EEXIST, true},
	{"an element changes by delete and add", nft.Batch{remove(services, toWeb), add(services, to(web, goTo(balance2)))}, 0, false},
	{"an element does not change by add and delete", nft.Batch{add(services, to(web, goTo(balance2))), remove(services, toWeb)}, unix.EEXIST, true},
	{"a missing element cannot be deleted", nft.Batch{remove(services, to(app, nft.Value{}))}, unix.ENOENT, true},
	{"an element cannot be deleted twice", nft.Batch{remove(services, toWeb, toWeb)}, unix.ENOENT, true},
	{"an element cannot lead to a missing chain", nft.Batch{add(services, to(app, goTo(chain(nft.ChainBalance, 9))))}, unix.ENOENT, true},
	{"an element cannot lead to a base chain", nft.Batch{add(services, to(app, goTo(chain(nft.ChainNATOutput, 0))))}, unix.EOPNOTSUPP, true},
	{"elements need their set", nft.Batch{add(slot9, inSlot1)}, unix.ENOENT, false},
	{"elements need their set to be deleted", nft.Batch{remove(slot9, inSlot1)}, unix.ENOENT, false},
	{"a set takes elements up to its size", nft.Batch{
		nft.AddSet{Set: slot9, Size: 2}, add(slot9, inSlot1, to(app, inSlot1.Value)),
	}, 0, false},
	{"a set takes no more elements than its size", nft.Batch{
		nft.AddSet{Set: slot9, Size: 1}, add(slot9, inSlot1, to(app, inSlot1.Value)),
	}, unix.ENFILE, true},
	{"a full set takes elements in place of deleted ones", nft.Batch{
		nft.AddSet{Set: slot9, Size: 1}, add(slot9, inSlot1), remove(slot9, inSlot1), add(slot9, to(app, inSlot1.Value)),
	}, 0, false},
	{"a set has its new size after the batch only", nft.Batch{nft.AddSet{Set: slot1, Size: 1}, add(slot1, to(app, inSlot1.Value))}, 0, false},

	{"intervals may be adjacent", nft.Batch{add(cidrs, prefix("10.95.0.0/16"), prefix("10.97.0.0/16"))}, 0, false},
	{"an interval may be added again", nft.Batch{add(cidrs, prefix("10.96.0.0/16"))}, 0, false},
	{"an interval may not be within another", nft.Batch{add(cidrs, prefix("10.96.1.0/24"))}, unix.EEXIST, false},
	{"an interval may not contain another", nft.Batch{add(cidrs, prefix("10.64.0.0/10"))}, unix.EEXIST, false},
	{"an interval may not begin as another does", nft.Batch{add(cidrs, prefix("10.96.0.0/12"))}, unix.EEXIST, false},
	{"an interval may replace another", nft.Batch{remove(cidrs, prefix("10.96.0.0/16")), add(cidrs, prefix("10.96.0.0/12"))}, 0, false},
	{"a missing interval cannot be deleted", nft.Batch{remove(cidrs, prefix("10.97.0.0/16"))}, unix.ENOENT, false},

	{"a source may be added again", nft.Batch{add(sources, source("192.0.2.0/24"))}, 0, false},
	{"sources may be adjacent", nft.Batch{add(sources, source("192.0.3.0/24"), source("192.0.1.0/24"))}, 0, false},
	{"a source is deleted and added", nft.Batch{remove(sources, source("192.0.2.0/24")), add(sources, source("192.0.2.0/24"))}, 0, false},
	{"a missing source cannot be deleted", nft.Batch{remove(sources, source("192.0.3.0/24"))}, unix.ENOENT, false},
	{"a source cannot be deleted twice", nft.Batch{remove(sources, source("192.0.2.0/24"), source("192.0.2.0/24"))}, unix.ENOENT, false},

	{"a map that a rule fills cannot be deleted", nft.Batch{deleteSet(affinity)}, unix.EBUSY, false},
	{"a map that no rule fills can be deleted", nft.Batch{flush(remember), flush(forget), flush(recall), deleteSet(affinity)}, 0, false},
	{"a rule that reads a map needs it", nft.Batch{flush(remember), flush(forget), flush(recall), deleteSet(affinity), rule(recall)}, unix.ENOENT, false},
	{"a map that is filled may be added again", nft.Batch{nft.AddSet{Set: affinity, Size: 1}}, 0, false},
	{"an affinity chain cannot be deleted while an element leads to it", nft.Batch{deleteChain(remember)}, unix.EBUSY, false},
	{"the counter may be added again", nft.Batch{nft.AddCounter{}}, 0, false},
	{"the counter needs its table", nft.Batch{nft.DeleteTable{}, nft.AddCounter{}}, unix.ENOENT, false},

	{"a table is deleted with its content", nft.Batch{nft.DeleteTable{}}, 0, false},
	{"a table may be added again, and keeps its content", nft.Batch{nft.AddTable{}}, 0, false},
	{"a missing table cannot be deleted", nft.Batch{nft.DeleteTable{}, nft.DeleteTable{}}, unix.ENOENT, false},
	{"everything needs its table", nft.Batch{nft.DeleteTable{}, nft.AddChain{Chain: balance2}}, unix.ENOENT, false},
	{"elements need their table", nft.Batch{nft.DeleteTable{}, add(services, toWeb)}, unix.ENOENT, false},
	{"a table is empty after delete and add", nft.Batch{nft.DeleteTable{}, nft.AddTable{}}, 0, false},
	{"nothing of a refused batch is applied", nft.Batch{
		remove(services, toWeb), deleteChain(cluster2), flush(balance2), nft.AddSet{Set: slot9, Size: 2}, deleteSet(services),
	}, unix.EBUSY, false},
	{"new chains of a refused batch are removed again", nft.Batch{
		nft.AddSet{Set: slot9, Size: 2},
		nft.AddChain{Chain: chain(nft.ChainEndpoint, 9)},
		nft.AddRule{Chain: chain(nft.ChainEndpoint, 9), Rule: rule(chain(nft.ChainEndpoint, 1)).(nft.AddRule).Rule},
		remove(services, toWeb), remove(services, toWeb),
	}, unix.ENOENT, true},
}

func TestFakeKeepsTheRulesOfTheRealKernel(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k, f := realKernel(t), kerneltest.New()
			held := [2]nft.Tables{
				try(t, "real", k.Read, k.Apply, c.batch, c.want, c.service), try(t, "fake", f.Read, f.Apply, c.batch, c.want, c.service),
			}
			if !reflect.DeepEqual(held[0], held[1]) {
				t.Errorf("the tables differ, -real +fake\n%s", cmp.Diff(held[0], held[1], compareKeys))
			}
		})
	}
}

// try applies the content of every case and then the batch, checks the error, and returns what
// the kernel holds then.
func try(t *testing.T, name string, read func() (nft.Tables, error), apply func(nft.Batch) (nft.Applied, error),
	b nft.Batch, want syscall.Errno, names bool,
) nft.Tables {
	t.Helper()
	_, all := nft.Adopt(config, nft.Tables{}, content)
	if _, err := apply(all); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	before, err := read()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	_, err = apply(b)
	var refusal *wire.Error
	if err != nil && !errors.As(err, &refusal) {
		t.Fatalf("%s: %v", name, err)
	}
	if refusal == nil {
		refusal = &wire.Error{}
	}
	if refusal.Errno != want {
		t.Errorf("%s: error %v, want %v", name, refusal.Errno, want)
	}
	if named := refusal.NamesService(); named != names {
		t.Errorf("%s: the error names service %s; want one: %t", name, refusal.Service, names)
	}
	after, err := read()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if want != 0 && !reflect.DeepEqual(before, after) {
		t.Errorf("%s: a part of a refused batch was applied\n%s", name, cmp.Diff(before, after, compareKeys))
	}
	return after
}

// realKernel opens nf_tables in a new network namespace, which is deleted with the test.
func realKernel(t testing.TB) *kernel.Kernel {
	t.Helper()
	return labtest.Kernel(t, labtest.Alone(t))
}

var onlySeed = flag.Uint64("seed", 0, "random history to run; 0 means fixed ones")

// TestHistoriesOnTheRealKernel gives loops random objects. The real kernel and the fake one must
// hold the same.
func TestHistoriesOnTheRealKernel(t *testing.T) {
	seeds, events := []uint64{1, 2, 3}, 500
	if *onlySeed != 0 {
		seeds = []uint64{*onlySeed}
	}
	if testing.Short() {
		events = 150
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			data := make([]byte, 12*events)
			_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(data) // never fails
			looptest.History(t, &both{realKernel(t), kerneltest.New()}, data, events, kerneltest.FaultRates{})
		})
	}
}

// both are the real kernel and the fake one.
type both struct {
	*kernel.Kernel
	fake *kerneltest.Kernel
}

// Read implements [sync.Kernel]. It compares the kernels.
func (b *both) Read() (nft.Tables, error) {
	have, err := b.Kernel.Read()
	fake, failed := b.fake.Read()
	if err == nil && failed == nil && !reflect.DeepEqual(have, fake) {
		failed = fmt.Errorf("the tables differ, -real +fake\n%s", cmp.Diff(have, fake, compareKeys))
	}
	return have, errors.Join(err, failed)
}

// Apply implements [sync.Kernel].
func (b *both) Apply(batch nft.Batch) (nft.Applied, error) {
	_, failed := b.fake.Apply(batch)
	applied, err := b.Kernel.Apply(batch)
	return applied, errors.Join(err, failed)
}

func TestScriptsOnTheRealKernel(t *testing.T) {
	looptest.Run(t, looptest.Options{
		Scripts: "../../sync/testdata/scripts/*.txtar",
		Open:    func(t testing.TB) sync.Kernel { return realKernel(t) },
	})
}
