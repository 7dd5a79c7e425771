package ruleset

import (
	"net/netip"
	"reflect"
	"testing"
	"unique"

	"github.com/google/go-cmp/cmp"

	"kube-vmap/nft"
)

// A proxy is the state of a running kube-vmap, and its machine.
type proxy struct {
	*machine
	world *world
	rules *nft.Ruleset
	held  nft.Tables // what the kernel held at the latest check
}

// start adopts what the kernel of the machine holds, changes it to the world, and returns
// the batch.
func start(m *machine, w *world) (*proxy, nft.Batch) {
	m.t.Helper()
	rules, batch := nft.Adopt(w.config, m.read(), w.all())
	m.apply(batch)
	p := &proxy{machine: m, world: w, rules: rules}
	p.check()
	return p, batch
}

// check asserts that the kernel holds exactly the proxy's state.
func (p *proxy) check() {
	p.t.Helper()
	p.held = p.read()
	same(p.t, "the kernel", p.held, p.rules.Tables())
}

func same(t testing.TB, what string, got, want nft.Tables) {
	t.Helper()
	if equal(got, want) {
		return
	}
	t.Fatalf("%s differs, -want +have\n%.4000s", what, cmp.Diff(want, got, exported))
}

func equal(got, want nft.Tables) bool { return reflect.DeepEqual(got, want) }

// exported lets cmp compare types with unexported fields.
var exported = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b unique.Handle[netip.Prefix]) bool { return a == b }),
}
