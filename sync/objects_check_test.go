package sync

import (
	"cmp"
	"fmt"
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
	differ(w.T, "endpoints, -read +planned", again.Endpoints(), w.rules.Endpoints())

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
