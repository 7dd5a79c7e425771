package ruleset

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/nfttest"
	"kube-vmap/nft/wire"
)

// services makes a world of n Services, each of a frontend of every family with
// three endpoints.
func services(n int) *world {
	w := newWorld()
	w.config.Pods = podPrefixes
	for i := range n {
		for _, f := range model.Families {
			fe := model.Frontend{
				Match:      web(f, i),
				Masquerade: model.MasqueradeOffPod,
				Pool:       &model.Pool{Key: web(f, i)},
			}
			fe.Service.Namespace, fe.Service.Name, fe.Service.Protocol = "shop", fmt.Sprintf("web-%d", i), model.TCP
			for k := range 3 {
				fe.Pool.Cluster = append(fe.Pool.Cluster, endpoint(f, 3*i+k))
			}
			w.frontends[fe.Match] = fe
		}
	}
	return w
}

// serve has a Service port of [services] have other endpoints.
func (w *world) serve(m model.Match, endpoints ...netip.AddrPort) {
	f := w.frontends[m]
	f.Pool = &model.Pool{Key: m, Cluster: endpoints}
	f.Verdict = nfttest.Verdict(f.Policy, f.Pool)
	w.frontends[m] = f
}

// web is what the frontend of Service number n answers to.
func web(f model.Family, n int) model.Match {
	return model.Match{Family: f, Addr: address(clusterRanges[f], 1+n), Protocol: model.TCP, Port: 80}
}

// key is the key of a frontend in the maps.
func key(m model.Match) nft.Key {
	return nft.Key{Addr: m.Addr, Protocol: m.Protocol, Port: m.Port}
}

func endpoint(f model.Family, n int) netip.AddrPort {
	return netip.AddrPortFrom(address(podRanges[f], 1+n), 8080)
}

// refused asserts that the kernel refuses the batch and that nothing of it is
// applied, and returns the refusal.
func (m *machine) refused(b nft.Batch) *wire.Error {
	m.t.Helper()
	before := m.read()
	_, err := m.kernel.Apply(b)
	var refusal *wire.Error
	if !errors.As(err, &refusal) {
		m.t.Fatalf("apply: %v, want a refusal", err)
	}
	same(m.t, "after a refused batch the kernel", m.read(), before)
	return refusal
}

func TestRefusalNamesTheElement(t *testing.T) {
	t.Parallel()
	// All fit into the existing maps: rebuilt maps would not have the foreign element.
	const before, after = 2100, 5000
	next := services(after)
	for _, f := range model.Families {
		for name, number := range map[string]int{"first": before, "one in the middle": after / 2, "last": after - 1} {
			t.Run(fmt.Sprintf("the %s, %s", name, nft.FamilyName(f)), func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				p, _ := start(m, services(before))
				victim := next.frontends[web(f, number)]
				slot := nft.SetID{Family: f, Kind: nft.SetEndpoints, Slot: 2}
				// Another program takes the key, for another endpoint.
				ours := nft.Element{Key: key(victim.Match), Value: nft.Value{Endpoint: victim.Pool.Cluster[2]}}
				theirs := nft.Element{Key: ours.Key, Value: nft.Value{Endpoint: endpoint(f, 60000)}}
				if _, err := m.open().Apply(nft.Batch{nft.AddElements{Set: slot, Elements: []nft.Element{theirs}}}); err != nil {
					t.Fatal(err)
				}

				refusal := m.refused(p.rules.Plan(p.world.to(next)).Batch)
				if op, ok := refusal.Op.(nft.AddElements); !ok || op.Set != slot || !errors.Is(refusal, fs.ErrExist) {
					t.Errorf("refused: %v, want an element of %s that exists", refusal, slot.Name())
				}
				if e := refusal.Element; refusal.Service != victim.Service || e == nil || e.Key != ours.Key || e.Value != ours.Value {
					t.Errorf("the refusal is about Service %s, element %v; want %v", refusal.Service, refusal.Element, ours)
				}
			})
		}
	}
}

// The kernel queues an error for each message until the socket is full. None of
// them may be taken for the answer to the next batch.
func TestManyErrorsStayWithTheirBatch(t *testing.T) {
	m := newMachine(t)
	p, _ := start(m, services(10))
	bad := slices.Repeat(nft.Batch{nft.FlushChain{Family: model.IPv4, Name: "nowhere"}}, 20_000)
	refusal := m.refused(bad)
	if refusal.Op != bad[0] || !errors.Is(refusal, fs.ErrNotExist) {
		t.Errorf("refused: %v, want %s", refusal, bad[0])
	}
	p.turn(services(11))
}

// All elements that the kernel does not support are named in one error, so that one more
// batch is enough.
func TestAllOffendersAreNamed(t *testing.T) {
	m := newMachine(t)
	p, _ := start(m, services(10))
	batch := p.rules.Plan(p.world.to(services(20))).Batch
	var want []model.ServicePortName
	for _, op := range batch {
		if add, isAdd := op.(nft.AddElements); isAdd && add.Set.Kind == nft.SetServices {
			bad := &add.Elements[len(add.Elements)/2]
			bad.Value.Chain = nft.ChainID{Family: add.Set.Family, Kind: nft.ChainNATPrerouting} // a hook is no target
			want = append(want, *bad.Service)
		}
	}
	if len(want) != len(model.Families) {
		t.Fatalf("the batch adds %v", want)
	}
	var got []model.ServicePortName
	for _, offender := range m.refused(batch).Offenders() {
		got = append(got, offender.Service)
	}
	if !slices.Equal(got, want) {
		t.Errorf("offenders are %v, want %v", got, want)
	}
}
