package ruleset

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"unique"

	"github.com/google/go-cmp/cmp"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/nfttest"
)

// Address plan: the first addresses of ranges.
var (
	clusterRanges = [...]string{model.IPv4: "10.96.0.0", model.IPv6: "fd00:10:96::"}
	podRanges     = [...]string{model.IPv4: "10.244.0.0", model.IPv6: "fd00:10:244::"}
	sourceRanges  = [...]string{model.IPv4: "172.16.0.0", model.IPv6: "2001:db8:172::"}
	// externalRanges are of external IPs, and of load balancers.
	externalRanges = [...][2]string{
		{model.IPv4: "198.51.100.0", model.IPv6: "2001:db8:198::"},
		{model.IPv4: "203.0.113.0", model.IPv6: "2001:db8:203::"},
	}
)

var podPrefixes = [...]netip.Prefix{
	model.IPv4: netip.MustParsePrefix("10.244.0.0/16"),
	model.IPv6: netip.MustParsePrefix("fd00:10:244::/56"),
}

// address is number n of a range.
func address(first string, n int) netip.Addr {
	b := netip.MustParseAddr(first).AsSlice()
	b[len(b)-2] += byte(n >> 8)
	b[len(b)-1] += byte(n)
	a, _ := netip.AddrFromSlice(b)
	return a
}

// A world is everything that a rule set is made from.
type world struct {
	config    nft.Config
	cidrs     []netip.Prefix
	nodeAddrs []netip.Addr
	frontends map[model.Match]model.Frontend
}

func newWorld() *world {
	return &world{
		config:    nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark},
		frontends: map[model.Match]model.Frontend{},
	}
}

func (w *world) clone() *world {
	next := *w
	next.cidrs, next.nodeAddrs = slices.Clone(w.cidrs), slices.Clone(w.nodeAddrs)
	next.frontends = maps.Clone(w.frontends)
	return &next
}

// without is the world as it is without a Service, the node's own affairs
// included.
func (w *world) without() *world {
	next := newWorld()
	next.config = w.config
	return next
}

func (w *world) all() nft.Change {
	cidrs, addrs := slices.Clone(w.cidrs), slices.Clone(w.nodeAddrs)
	set := slices.SortedFunc(maps.Values(w.frontends), func(a, b model.Frontend) int { return a.Match.Compare(b.Match) })
	return nft.Change{Set: set, ServiceCIDRs: &cidrs, NodeAddrs: &addrs}
}

func (w *world) to(next *world) nft.Change {
	var c nft.Change
	for _, f := range next.all().Set {
		if old, ok := w.frontends[f.Match]; !ok || !reflect.DeepEqual(essence(old), essence(f)) {
			c.Set = append(c.Set, f)
		}
	}
	for _, f := range w.all().Set {
		if _, stays := next.frontends[f.Match]; !stays {
			c.Removed = append(c.Removed, f.Match)
		}
	}
	if !slices.Equal(w.cidrs, next.cidrs) {
		c.ServiceCIDRs = &next.cidrs
	}
	if !slices.Equal(w.nodeAddrs, next.nodeAddrs) {
		c.NodeAddrs = &next.nodeAddrs
	}
	return c
}

// essence leaves out of a frontend what does not concern it, of a pool that it
// only leads to: package model does not say when that changes.
func essence(f model.Frontend) model.Frontend {
	if f.IsClusterIP() {
		return f
	}
	f.Pool = &model.Pool{
		Key: f.Pool.Key, Scheduler: f.Pool.Scheduler, Affinity: f.Pool.Affinity, RetryRefused: f.Pool.RetryRefused,
		Cluster: make([]netip.AddrPort, f.Pool.Slots(false)), Local: make([]netip.AddrPort, f.Pool.Slots(true)),
	}
	return f
}

// remembers reports whether some Service remembers its clients.
func (w *world) remembers() bool {
	for _, f := range w.frontends {
		if f.Pool.Affinity > 0 && f.Verdict == model.VerdictBalance {
			return true
		}
	}
	return false
}

// put adds a Service port, given its frontends, the ClusterIP first. It does not get
// addresses that belong to another one.
func (w *world) put(frontends ...model.Frontend) {
	for _, f := range frontends {
		if _, taken := w.frontends[f.Match]; !taken {
			w.frontends[f.Match] = f
		}
	}
}

// remove removes a Service port.
func (w *world) remove(key model.Match) {
	maps.DeleteFunc(w.frontends, func(_ model.Match, f model.Frontend) bool { return f.Pool.Key == key })
}

// edit changes the pool of a Service port.
func (w *world) edit(key model.Match, change func(*model.Pool)) {
	pool := *w.frontends[key].Pool
	change(&pool)
	for m, f := range w.frontends {
		if f.Pool.Key == key {
			f.Pool = &pool
			f.Verdict = nfttest.Verdict(f.Policy, &pool)
			w.frontends[m] = f
		}
	}
}

// fit completes the frontends of a Service port once its pool is known: it sets their
// verdicts, and removes from the pool what no frontend needs.
func fit(frontends []model.Frontend) []model.Frontend {
	pool := frontends[0].Pool
	local := false
	for i := range frontends {
		f := &frontends[i]
		if f.Verdict != model.VerdictDrop { // which may have been chosen
			f.Verdict = nfttest.Verdict(f.Policy, pool)
		}
		local = local || f.Policy == model.PolicyLocal
		if f.Kind != model.KindClusterIP {
			f.Masquerade = model.MasqueradeNever
			if f.Policy == model.PolicyCluster {
				f.Masquerade = model.MasqueradeAlways
			}
		}
	}
	if !local {
		pool.Local, pool.LocalWeights, pool.LocalShares = nil, nil, nil
	}
	if len(frontends) == 1 && local {
		pool.Cluster, pool.ClusterWeights, pool.ClusterShares = nil, nil, nil
	}
	return frontends
}

// A machine is an empty network namespace, and our sockets in it.
type machine struct {
	t      testing.TB
	host   *lab.Host
	kernel *kernel.Kernel
}

// newMachine returns a machine that exists until the test ends.
func newMachine(t testing.TB) *machine {
	t.Helper()
	m := &machine{t: t, host: labtest.Alone(t)}
	m.kernel = m.open()
	return m
}

// open gives the machine one more program with sockets to nf_tables.
func (m *machine) open() *kernel.Kernel {
	m.t.Helper()
	return labtest.Kernel(m.t, m.host)
}

// apply applies a batch that the kernel must accept.
func (m *machine) apply(b nft.Batch) nft.Applied {
	m.t.Helper()
	a, err := m.kernel.Apply(b)
	if err != nil {
		m.t.Fatalf("apply: %v", err)
	}
	return a
}

// read is what the kernel holds in our tables.
func (m *machine) read() nft.Tables {
	m.t.Helper()
	tables, err := m.kernel.Read()
	if err != nil {
		m.t.Fatalf("read: %v", err)
	}
	return tables
}

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
