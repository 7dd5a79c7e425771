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
	mustNameElements(t)
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

func TestRefusalWithoutTable(t *testing.T) {
	for _, f := range model.Families {
		t.Run(nft.FamilyName(f), func(t *testing.T) {
			m := newMachine(t)
			p, _ := start(m, services(10))
			installed(t).load(m, "delete table "+nft.FamilyName(f)+" "+nft.TableName)
			refusal := m.refused(p.rules.Plan(p.world.to(services(11))).Batch)
			add, ok := refusal.Op.(nft.AddElements)
			if !ok || add.Set.Family != f || !errors.Is(refusal, fs.ErrNotExist) {
				t.Errorf("refused: %v, want elements of family %s that have no table", refusal, nft.FamilyName(f))
			}
			// No Service is the offender, or it would be quarantined.
			if refusal.NamesService() || refusal.Element != nil {
				t.Errorf("the refusal names Service %s, element %v", refusal.Service, refusal.Element)
			}
			p, _ = start(m, services(11))
			p.checkLikeFresh()
		})
	}
}

func TestRefusalWithoutElement(t *testing.T) {
	mustNameElements(t)
	for _, f := range model.Families {
		t.Run(nft.FamilyName(f), func(t *testing.T) {
			m := newMachine(t)
			p, _ := start(m, services(2000))
			next := p.world.clone()
			for match, fe := range next.frontends {
				others := slices.Clone(fe.Pool.Cluster)
				others[1] = endpoint(match.Family, 61000)
				slices.SortFunc(others, netip.AddrPort.Compare)
				next.serve(match, others...)
			}
			lost := next.frontends[web(f, 1234)]
			slot := nft.SetID{Family: f, Kind: nft.SetEndpoints, Slot: 1}
			m.apply(nft.Batch{nft.DeleteElements{Set: slot, Elements: []nft.Element{{Key: key(lost.Match)}}}})

			refusal := m.refused(p.rules.Plan(p.world.to(next)).Batch)
			if op, ok := refusal.Op.(nft.DeleteElements); !ok || op.Set != slot || !errors.Is(refusal, fs.ErrNotExist) {
				t.Errorf("refused: %v, want the deletion of an element of %s", refusal, slot.Name())
			}
			if refusal.Service != lost.Service || refusal.Element == nil || refusal.Element.Key != key(lost.Match) {
				t.Errorf("the refusal is about Service %s, element %v; want %s", refusal.Service, refusal.Element, lost.Match)
			}
		})
	}
}

func TestRefusalNamesTheOp(t *testing.T) {
	m := newMachine(t)
	start(m, services(1))
	chain := nft.DeleteChain{Family: model.IPv4, Name: "lb-3"}
	refusal := m.refused(nft.Batch{nft.AddTable{}, chain})
	if refusal.Op != chain || refusal.NamesService() {
		t.Errorf("refused: %v, want %v", refusal, chain)
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

// A full set accepts replacements: the kernel does not count elements that the same
// transaction deletes.
func TestFullSetAcceptsReplacements(t *testing.T) {
	const size = 384 // of a set that was made for half as many
	m := newMachine(t)
	p, _ := start(m, services(size/2))
	p.turn(services(size))
	for _, f := range model.Families {
		id := nft.SetID{Family: f, Kind: nft.SetEndpoints}
		if full := p.rules.Tables()[f].Sets[id.Name()]; len(full.Elements) != size || full.Shape.Size != size {
			t.Fatalf("%s holds %d of %d", id.Name(), len(full.Elements), full.Shape.Size)
		}
	}
	next := p.world.clone()
	for match, fe := range next.frontends {
		others := slices.Clone(fe.Pool.Cluster)
		for i := range others {
			others[i] = endpoint(match.Family, 60_000+i)
		}
		next.serve(match, others...)
	}
	p.turn(next)
}
