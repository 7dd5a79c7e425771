package ruleset

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/model"
)

var onlySeed = flag.Uint64("seed", 0, "random history to run; 0 means the usual ones and a new one")

// withSeeds runs a test with fixed seeds and with one nobody has tried. The name
// of a failing subtest says which seed to give to -seed.
func withSeeds(t *testing.T, fixed int, run func(*testing.T, *chance)) {
	t.Helper()
	seeds := []uint64{rand.Uint64()}
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

// chance draws worlds, and steps from one to the next.
type chance struct{ *rand.Rand }

// one draws an item.
func one[T any](c *chance, items ...T) T { return items[c.IntN(len(items))] }

// in reports true once in n times.
func (c *chance) in(n int) bool { return c.IntN(n) == 0 }

// Address plan of the histories. They use few addresses and ports, so that
// Services come back, share pods, and share addresses.
var (
	clusterRanges = [...]string{model.IPv4: "10.96.0.0", model.IPv6: "fd00:10:96::"}
	podRanges     = [...]string{model.IPv4: "10.244.0.0", model.IPv6: "fd00:10:244::"}
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

// match draws what a frontend answers to, at one of n addresses of each family.
func (c *chance) match(n int) model.Match {
	f := one(c, model.Families[:]...)
	return model.Match{
		Family: f, Addr: address(clusterRanges[f], 1+c.IntN(n)),
		Protocol: one(c, model.Protocols[:]...), Port: one[uint16](c, 53, 80, 443),
	}
}

// frontend draws a frontend from nothing.
func (c *chance) frontend(m model.Match) model.Frontend {
	f := model.Frontend{Match: m}
	c.rename(&f)
	switch {
	case c.in(8):
		f.Verdict = one(c, model.Reject, model.Drop)
		return f
	case c.in(60):
		c.endow(&f, 250+c.IntN(12)) // on both sides of what has slots
	case c.in(8):
		c.endow(&f, 1+c.IntN(20))
	default:
		c.endow(&f, 1+c.IntN(5))
	}
	c.masquerade(&f)
	return f
}

// endow gives the frontend n endpoints, some of them on this node.
func (c *chance) endow(f *model.Frontend, n int) {
	f.Verdict, f.Endpoints, f.Hairpin = model.Balance, nil, nil
	for _, i := range c.Perm(n + n/2)[:n] {
		a := address(podRanges[f.Match.Family], 1+i)
		f.Endpoints = append(f.Endpoints, netip.AddrPortFrom(a, 8080))
		if i%3 == 0 {
			f.Hairpin = append(f.Hairpin, a)
		}
	}
	slices.SortFunc(f.Endpoints, netip.AddrPort.Compare)
	slices.SortFunc(f.Hairpin, netip.Addr.Compare)
}

func (c *chance) masquerade(f *model.Frontend) {
	f.Masquerade = one(c, model.MasqueradeNever, model.MasqueradeOffPod, model.MasqueradeAlways)
}

func (c *chance) rename(f *model.Frontend) {
	f.Kind = one(c, model.ClusterIP, model.ClusterIP, model.ExternalIP)
	f.Service.Namespace = one(c, "shop", "kube-system")
	f.Service.Name = fmt.Sprintf("service-%d", c.IntN(100))
	f.Service.Protocol = f.Match.Protocol
}

// change draws what may become of a frontend.
func (c *chance) change(f model.Frontend) model.Frontend {
	n := len(f.Endpoints)
	switch {
	case c.in(6) || n == 0:
		return c.frontend(f.Match)
	case c.in(6):
		c.masquerade(&f)
	case c.in(6):
		c.rename(&f)
	default:
		c.endow(&f, max(1, n-1+c.IntN(3))) // most stay, by the narrow choice
	}
	return f
}

// step draws the next world.
func (c *chance) step(w *world) *world {
	next := w.clone()
	n := one(c, 1, 1, 2, 5)
	if c.in(40) {
		n = 500 // sets outgrow their size
	}
	addresses := max(8, n) // few, unless there are many Services
	for range n {
		m := c.match(addresses)
		old, exists := next.frontends[m]
		switch {
		case exists && c.in(4):
			delete(next.frontends, m)
		case exists:
			next.frontends[m] = c.change(old)
		default:
			next.frontends[m] = c.frontend(m)
		}
	}
	switch {
	case c.in(40):
		clear(next.frontends)
	case c.in(20):
		maps.DeleteFunc(next.frontends, func(model.Match, model.Frontend) bool { return c.in(2) })
	}
	if c.in(10) {
		next.cidrs = c.cidrs()
	}
	return next
}

// cidrs draws ranges that contain, touch and follow each other.
func (c *chance) cidrs() []netip.Prefix {
	var out []netip.Prefix
	for range c.IntN(6) {
		f := one(c, model.Families[:]...)
		bits := address(clusterRanges[f], 0).BitLen() - c.IntN(11)
		p := netip.PrefixFrom(address(clusterRanges[f], c.IntN(1<<12)), bits)
		out = append(out, p.Masked())
	}
	return out
}

// shuffled is the change in another order.
func shuffled[T any](c *chance, list []T) []T {
	list = slices.Clone(list)
	c.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}
