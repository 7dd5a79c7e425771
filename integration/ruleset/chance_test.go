package ruleset

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-vmap/model"
)

var onlySeed = flag.Uint64("seed", 0, "random history to run; 0 means fixed ones")

// withSeeds runs a test with fixed seeds, from 1 on, or with that of -seed.
func withSeeds(t *testing.T, fixed int, run func(*testing.T, *chance)) {
	t.Helper()
	var seeds []uint64
	for i := range fixed {
		seeds = append(seeds, uint64(i)+1)
	}
	if *onlySeed != 0 {
		seeds = []uint64{*onlySeed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			run(t, &chance{rand.New(rand.NewPCG(seed, 0))})
		})
	}
}

// chance makes random worlds, and random steps from one to the next.
type chance struct{ *rand.Rand }

// one returns a random item.
func one[T any](c *chance, items ...T) T { return items[c.IntN(len(items))] }

// in reports true with probability 1/n.
func (c *chance) in(n int) bool { return c.IntN(n) == 0 }

// Address plan of the histories. They use few addresses and ports, so that
// Services come back, share pods, and share addresses.
var (
	clusterRanges = [...]string{model.IPv4: "10.96.0.0", model.IPv6: "fd00:10:96::"}
	podRanges     = [...]string{model.IPv4: "10.244.0.0", model.IPv6: "fd00:10:244::"}
	sourceRanges  = [...]string{model.IPv4: "172.16.0.0", model.IPv6: "2001:db8:172::"}
	// externalRanges are of external IPs, and of load balancers.
	externalRanges = [...][2]string{
		{model.IPv4: "198.51.100.0", model.IPv6: "2001:db8:198::"},
		{model.IPv4: "203.0.113.0", model.IPv6: "2001:db8:203::"},
	}
	nodeRanges = [...]string{model.IPv4: "192.0.2.0", model.IPv6: "2001:db8:2::"}
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

// match draws the ClusterIP and port of a Service port, at one of n addresses of
// each family.
func (c *chance) match(n int) model.Match {
	f := one(c, model.Families[:]...)
	return model.Match{
		Family: f, Addr: address(clusterRanges[f], 1+c.IntN(n)),
		Protocol: one(c, model.Protocols[:]...), Port: one[uint16](c, 53, 80, 443),
	}
}

// service draws the frontends of a Service port from nothing.
func (c *chance) service(key model.Match) []model.Frontend {
	f := model.Frontend{Match: key, Pool: &model.Pool{Key: key}}
	c.rename(&f)
	c.masquerade(&f)
	c.treat(f.Pool)
	if c.in(6) {
		f.Policy = model.PolicyLocal
	}
	out := []model.Frontend{f}
	switch {
	case c.in(10):
		out[0].Verdict = one(c, model.VerdictBalance, model.VerdictDrop)
	case c.in(60):
		c.endow(f.Pool, 250+c.IntN(12)) // on both sides of what has slots
	case c.in(8):
		c.endow(f.Pool, 1+c.IntN(20))
	default:
		c.endow(f.Pool, 1+c.IntN(5))
	}
	if c.in(2) {
		out = append(out, c.externals(f)...)
	}
	return fit(out)
}

// externals draws other addresses of a Service port, some of which others may
// have as well.
func (c *chance) externals(inside model.Frontend) (out []model.Frontend) {
	f := inside
	f.Policy, f.Verdict = one(c, model.PolicyCluster, model.PolicyLocal), model.VerdictBalance
	for f.Kind = model.KindNodePort; f.Kind <= model.KindLoadBalancerIP; f.Kind++ {
		if c.in(3) {
			continue
		}
		f.Match.Addr, f.Match.Port = netip.Addr{}, uint16(30000+c.IntN(40))
		if f.Kind != model.KindNodePort {
			f.Match.Addr = address(externalRanges[f.Kind-model.KindExternalIP][f.Match.Family], c.IntN(6))
			f.Match.Port = inside.Match.Port
		}
		if f.Restricted, f.Sources = f.Kind == model.KindLoadBalancerIP && c.in(2), nil; f.Restricted {
			f.Sources = c.prefixes(sourceRanges[f.Match.Family], c.IntN(9))
		}
		out = append(out, f)
	}
	return out
}

// treat draws how endpoints are chosen.
func (c *chance) treat(p *model.Pool) {
	p.Scheduler, p.Affinity = one(c,
		model.SchedulerRandom, model.SchedulerRandom, model.SchedulerRoundRobin, model.SchedulerSourceHash, model.SchedulerLeastConnections), 0
	switch {
	case c.in(20): // all its slots make histories slow
		p.Scheduler = model.SchedulerMaglev
	case c.in(5):
		p.Affinity = one(c, time.Second, 90*time.Second, 3*time.Hour, 24*time.Hour)
	}
}

// endow gives a pool n endpoints, some of them on this node, and some of several slots.
func (c *chance) endow(p *model.Pool, n int) {
	*p = model.Pool{Key: p.Key, Scheduler: p.Scheduler, Affinity: p.Affinity}
	for _, i := range c.Perm(n + n/2)[:n] {
		a := address(podRanges[p.Key.Family], 1+i)
		p.Cluster = append(p.Cluster, netip.AddrPortFrom(a, 8080))
		if i%3 == 0 {
			p.Hairpin = append(p.Hairpin, a)
			p.Local = append(p.Local, netip.AddrPortFrom(a, 8080))
		}
	}
	slices.SortFunc(p.Cluster, netip.AddrPort.Compare)
	slices.SortFunc(p.Local, netip.AddrPort.Compare)
	slices.SortFunc(p.Hairpin, netip.Addr.Compare)
	if c.in(4) {
		c.share(p)
	}
}

// share draws the slots of a pool's endpoints, now and then more than [nft.MaxSlots]
// together, by which its endpoints move to another map.
func (c *chance) share(p *model.Pool) {
	p.ClusterShares, p.LocalShares = nil, nil
	most := uint16(3)
	if c.in(20) && len(p.Cluster) < 20 {
		most = 100
	}
	for range p.Cluster {
		p.ClusterShares = append(p.ClusterShares, one(c, 1, 1, 2, most))
	}
	for range p.Local {
		p.LocalShares = append(p.LocalShares, one(c, 1, most))
	}
	weigh(p)
}

func (c *chance) masquerade(f *model.Frontend) {
	f.Masquerade = one(c, model.MasqueradeNever, model.MasqueradeOffPod, model.MasqueradeAlways)
}

func (c *chance) rename(f *model.Frontend) {
	f.Service.Namespace = one(c, "shop", "kube-system")
	f.Service.Name = fmt.Sprintf("service-%d", c.IntN(100))
	f.Service.Protocol = f.Match.Protocol
}

// change makes a random change of a Service port. Mostly, its frontends besides the
// ClusterIP are added or deleted.
func (c *chance) change(w *world, key model.Match) []model.Frontend {
	var service []model.Frontend
	for _, f := range w.all().Set {
		if f.Pool.Key == key {
			service = append(service, f)
		}
	}
	i := slices.IndexFunc(service, func(f model.Frontend) bool { return f.IsClusterIP() })
	service[0], service[i] = service[i], service[0]
	pool := *service[0].Pool
	for i := range service {
		service[i].Pool = &pool
	}
	inside := &service[0]
	n := max(len(pool.Cluster), len(pool.Local))
	switch {
	case c.in(6) || n == 0:
		return c.service(key)
	case c.in(6):
		c.masquerade(inside)
	case c.in(6):
		c.rename(inside)
	case c.in(6):
		c.treat(&pool)
	case c.in(4):
		service = append(service[:1], c.externals(*inside)...)
		c.endow(&pool, n)
	case c.in(3):
		c.resource(service)
	case c.in(3):
		c.share(&pool)
	default:
		c.endow(&pool, max(1, n-1+c.IntN(3))) // most stay, by the narrow choice
	}
	if inside.Verdict == model.VerdictDrop {
		inside.Verdict = model.VerdictBalance
	}
	return fit(service)
}

// resource draws other sources for those that have a limit, near what they were.
func (c *chance) resource(service []model.Frontend) {
	for i := range service {
		f := &service[i]
		if !f.Restricted {
			continue
		}
		more := c.prefixes(sourceRanges[f.Match.Family], 2)
		f.Sources = slices.Concat(more, f.Sources[:len(f.Sources)/2])
	}
}

// step returns a random next world.
func (c *chance) step(w *world) *world {
	next := w.clone()
	n := one(c, 1, 1, 2, 5)
	if c.in(40) {
		n = 500 // sets outgrow their size
	}
	addresses := max(8, n) // few, unless there are many Services
	for range n {
		key := c.match(addresses)
		_, exists := next.frontends[key]
		var service []model.Frontend
		switch {
		case exists && c.in(4):
		case exists:
			service = c.change(next, key)
		default:
			service = c.service(key)
		}
		next.remove(key)
		next.put(service...)
	}
	switch {
	case c.in(40):
		clear(next.frontends)
	case c.in(20):
		for _, f := range w.all().Set {
			if f.IsClusterIP() && c.in(2) {
				next.remove(f.Match)
			}
		}
	}
	if c.in(10) {
		next.nodeAddrs = c.nodeAddrs()
	}
	if c.in(10) {
		next.cidrs = c.cidrs()
	}
	return next
}

// cidrs draws ranges that contain, touch and follow each other.
func (c *chance) cidrs() []netip.Prefix {
	return slices.Concat(c.prefixes(clusterRanges[model.IPv4], c.IntN(4)), c.prefixes(clusterRanges[model.IPv6], c.IntN(4)))
}

// prefixes draws ranges of one family, the same ones now and then.
func (c *chance) prefixes(first string, n int) (out []netip.Prefix) {
	for range n {
		a := address(first, c.IntN(1<<12))
		out = append(out, netip.PrefixFrom(a, a.BitLen()-c.IntN(11)).Masked())
	}
	return out
}

// nodeAddrs draws addresses that serve node ports.
func (c *chance) nodeAddrs() (out []netip.Addr) {
	for range c.IntN(4) {
		out = append(out, address(nodeRanges[one(c, model.Families[:]...)], 1+c.IntN(4)))
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// shuffled is the change in another order.
func shuffled[T any](c *chance, list []T) []T {
	list = slices.Clone(list)
	c.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}
