package sync

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
)

// checkFromScratch compares the kernel with one that is programmed from scratch, with
// events in another order, and with the rule set.
func (w *apiWorld) checkFromScratch() {
	have := w.read()
	again, batch := nft.Adopt(w.state.config.Rules, have, w.state.all())
	if len(batch) > 0 {
		w.Errorf("the kernel lacks\n%s", batch)
	}
	differ(w.T, "elements, -read +planned", again.Elements(), w.rules.Elements())

	fresh := newDesiredState(w.config)
	fresh.setInterfaces(w.state.interfaces)
	fresh.apply(w.current())
	fresh.setPodCIDRs(w.state.config.Rules.Pods) // a node that lost its ranges still has them
	fresh.take(never)
	_, batch = nft.Adopt(fresh.config.Rules, nft.Tables{}, fresh.all())
	other := kerneltest.New()
	w.apply(other, batch)
	want, err := other.Read()
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range model.Families {
		differ(w.T, f.String()+", -from scratch +step by step", essence(f, want[f]), essence(f, have[f]))
	}
}

// differ reports how two values differ. The comparison that explains it takes much longer
// than the one that finds them equal.
func differ(t *testing.T, what string, a, b any) {
	t.Helper()
	if !reflect.DeepEqual(a, b) {
		same := func(a, b nft.Element) bool { return a == b }
		t.Errorf("%s\n%s", what, gocmp.Diff(a, b, gocmp.Comparer(same)))
	}
}

// essence returns a table without what depends on its history: the sizes of sets, and
// which endpoint has which slot.
func essence(f model.Family, t *nft.Table) *nft.Table {
	out := nft.NewTable()
	out.Chains, out.Counters, out.Dormant = t.Chains, t.Counters, t.Dormant
	for name, s := range t.Sets {
		s.Shape.Size = 0
		out.Sets[name] = s
	}
	slots := map[string][]nft.Element{}
	for name, s := range out.Sets {
		id, _ := nft.SetNamed(f, name)
		if id.Kind < nft.SetEndpoints || id.Kind >= nft.SetStickyEndpoints {
			continue
		}
		for _, e := range s.Elements {
			e.Key.Pick = 0
			pool := strings.TrimRight(name, "0123456789")
			slots[pool] = append(slots[pool], e)
		}
		s.Elements = nil
		out.Sets[name] = s
	}
	for pool, list := range slots {
		slices.SortFunc(list, func(a, b nft.Element) int {
			return cmp.Or(compareKeys(a.Key, b.Key), strings.Compare(valueText(a.Value), valueText(b.Value)))
		})
		out.Sets[pool] = nft.SetState{Elements: list}
	}
	return out
}

func compareKeys(a, b nft.Key) int {
	return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
}

func valueText(v nft.Value) string {
	if v.Verdict == nft.VerdictGoto {
		return v.Chain.Name()
	}
	return fmt.Sprint(v.Endpoint, v.Number)
}

// checkServed checks that each address and port of each Service is held by it or by
// another Service that a conflict names, and is installed.
func (w *apiWorld) checkServed() {
	held := map[model.Match]model.ServicePortName{}
	tables := w.read()
	for _, f := range w.state.services.Frontends() {
		held[f.Match] = f.Service
		if !dispatched(tables[f.Match.Family], f.Match) {
			w.Errorf("not installed: %s of %s", f.Match, f.Service)
		}
	}
	lost := map[model.Conflict]struct{}{}
	for _, e := range w.objects {
		s, ok := e.(SetService)
		if !ok {
			continue
		}
		for _, claim := range w.claims(&s.Service, held) {
			holder := held[claim.Match]
			if holder == (model.ServicePortName{}) {
				w.Errorf("no Service holds %s of %s", claim.Match, claim.Loser)
			}
			if holder == claim.Loser {
				continue
			}
			claim.Winner = holder
			lost[claim] = struct{}{}
		}
	}
	if n := w.state.services.ConflictCount(); n != len(lost) {
		w.Errorf("%d conflicts are reported, %d claims are lost: %v", n, len(lost), lost)
	}
}

// claims returns what a Service claims, as conflicts that it may have lost. A port that
// loses its ClusterIP claims no other address.
func (w *apiWorld) claims(s *model.Service, held map[model.Match]model.ServicePortName) []model.Conflict {
	outside := s.LoadBalancerIPs
	if !w.config.IgnoreExternalIPs {
		outside = slices.Concat(outside, s.ExternalIPs)
	}
	var out []model.Conflict
	for _, own := range s.ClusterIPs {
		f := model.FamilyOf(own)
		for _, p := range s.Ports {
			name := model.ServicePortName{ServiceName: s.Name, Port: p.Name, Protocol: p.Protocol}
			claim := func(a netip.Addr, port uint16) {
				m := model.Match{Family: f, Addr: a, Protocol: p.Protocol, Port: port}
				out = append(out, model.Conflict{Match: m, Loser: name})
			}
			claim(own, p.Port)
			if held[out[len(out)-1].Match] != name {
				continue
			}
			for _, a := range outside {
				if model.FamilyOf(a) == f {
					claim(a, p.Port)
				}
			}
			if p.NodePort != 0 {
				claim(netip.Addr{}, p.NodePort)
			}
		}
	}
	return out
}

// dispatched reports whether the table has an element for the match.
func dispatched(t *nft.Table, m model.Match) bool {
	kinds := []nft.SetKind{nft.SetServices, nft.SetNoEndpointServices}
	if !m.Addr.IsValid() {
		kinds = []nft.SetKind{nft.SetNodePorts, nft.SetNoEndpointNodePorts}
	}
	return slices.ContainsFunc(kinds, func(kind nft.SetKind) bool {
		elements := t.Sets[nft.SetID{Family: m.Family, Kind: kind}.Name()].Elements
		return slices.ContainsFunc(elements, func(e nft.Element) bool {
			return e.Key == nft.Key{Addr: m.Addr, Protocol: m.Protocol, Port: m.Port}
		})
	})
}
