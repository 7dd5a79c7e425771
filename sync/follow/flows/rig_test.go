package flows_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	stdsync "sync"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/flows"
	"kube-vmap/sync/throttle"
)

// plan has the addresses of a family by name: "vip", "lb" and "other" are addresses of
// Services, "node", "node-2" and "remote" of nodes.
var plan = [...]map[string]netip.Addr{
	model.IPv4: addresses("vip 10.96.0.10 other 10.96.0.11 lb 203.0.113.10 node 192.0.2.1 node-2 192.0.2.2 " +
		"remote 192.0.2.9 ep1 10.244.1.1 ep2 10.244.1.2 ep3 10.244.1.3"),
	model.IPv6: addresses("vip fd00:10:96::10 other fd00:10:96::11 lb 2001:db8:113::10 node 2001:db8:2::1 node-2 2001:db8:2::2 " +
		"remote 2001:db8:2::9 ep1 fd00:10:244::1 ep2 fd00:10:244::2 ep3 fd00:10:244::3"),
}

func addresses(words string) map[string]netip.Addr {
	all := map[string]netip.Addr{}
	for pair := range slices.Chunk(strings.Fields(words), 2) {
		all[pair[0]] = netip.MustParseAddr(pair[1])
	}
	return all
}

// A rig runs Flows over a fake kernel, in a bubble of synctest and one family.
type rig struct {
	*flows.Flows
	t          *testing.T
	family     model.Family
	kernel     *fake
	log        bytes.Buffer
	reconciled []string
}

// run runs the test in each family.
func run(t *testing.T, c flows.Config, test func(*rig)) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rig{t: t, family: f, kernel: &fake{}}
				c := c
				c.Reconciled = func(f model.Family, deleted int, took time.Duration) {
					r.reconciled = append(r.reconciled, fmt.Sprint(f, " ", deleted, " ", took))
				}
				elapsed := func() time.Duration { return time.Since(time.Unix(0, 0)) }
				c.Background = &throttle.Budget{ProcessorTime: elapsed}
				r.Flows = flows.New(c, r.kernel, slog.New(slog.NewTextHandler(&r.log, nil)))
				go func() {
					if err := r.Run(t.Context()); err != nil {
						t.Errorf("Run: %v", err)
					}
				}()
				test(r)
			})
		})
	}
}

// addrPort parses "vip:53".
func (r *rig) addrPort(s string) netip.AddrPort {
	name, port, _ := strings.Cut(s, ":")
	a, ok := plan[r.family][name]
	if !ok {
		r.t.Fatalf("unknown address %q", name)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		r.t.Fatal(err)
	}
	return netip.AddrPortFrom(a, uint16(n))
}

// match parses "vip:53/udp", or "*:30053/udp" of a node port.
func (r *rig) match(s string) model.Match {
	where, name, _ := strings.Cut(s, "/")
	protocol, err := model.ParseProtocol(name)
	if err != nil {
		r.t.Fatal(err)
	}
	m := model.Match{Family: r.family, Protocol: protocol}
	if port, ok := strings.CutPrefix(where, "*:"); ok {
		m.Port = r.addrPort("vip:" + port).Port()
		return m
	}
	a := r.addrPort(where)
	m.Addr, m.Port = a.Addr(), a.Port()
	return m
}

// frontend parses lines such as "vip:53/udp ep1:5353 ep2:5353": a match and its
// FlowEndpoints.
func (r *rig) frontend(line string) model.Frontend {
	words := strings.Fields(line)
	pool := &model.Pool{}
	for _, w := range words[1:] {
		pool.FlowEndpoints = append(pool.FlowEndpoints, r.addrPort(w))
	}
	slices.SortFunc(pool.FlowEndpoints, netip.AddrPort.Compare)
	return model.Frontend{Match: r.match(words[0]), Pool: pool}
}

// entries parses lines such as "vip:53/udp ep1:5353": an original destination and
// a reply source.
func (r *rig) entries(lines ...string) (all []conntrack.Entry) {
	for _, line := range lines {
		to, by, _ := strings.Cut(line, " ")
		m := r.match(to)
		all = append(all, conntrack.Entry{
			Protocol: m.Protocol, Original: netip.AddrPortFrom(m.Addr, m.Port), Reply: r.addrPort(by),
		})
	}
	return all
}

// nodeAddrs returns addresses by name, sorted.
func (r *rig) nodeAddrs(names ...string) (all []netip.Addr) {
	for _, name := range names {
		all = append(all, plan[r.family][name])
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// full commits all frontends, change new or changed ones and, after a minus, removed ones.
func (r *rig) full(lines ...string) {
	c := r.changed(lines...)
	c.Full = true
	r.follow(c)
}

func (r *rig) change(lines ...string) { r.follow(r.changed(lines...)) }

func (r *rig) changed(lines ...string) sync.Committed {
	c := sync.Committed{NodeAddrs: r.nodeAddrs("node")}
	for _, line := range lines {
		if removed, ok := strings.CutPrefix(line, "-"); ok {
			c.Removed = append(c.Removed, r.match(removed))
		} else {
			c.Set = append(c.Set, r.frontend(line))
		}
	}
	return c
}

// other returns the words of the other family.
func (r *rig) other() *rig { return &rig{t: r.t, family: 1 - r.family} }

// both returns the commit of a frontend in both families.
func (r *rig) both(endpoint string, full bool) sync.Committed {
	line := "vip:53/udp " + endpoint
	return sync.Committed{Full: full, Set: []model.Frontend{r.frontend(line), r.other().frontend(line)}}
}

// follow commits and waits until flows are deleted.
func (r *rig) follow(t sync.Committed) {
	r.Follow(t)
	pass(settled)
}

// expect compares the kernel's entries.
func (r *rig) expect(when string, lines ...string) {
	r.t.Helper()
	have, want := describe(r.kernel.held()), describe(r.entries(lines...))
	if !slices.Equal(have, want) {
		r.t.Errorf("%s: entries\n\t%s\nwant\n\t%s", when, strings.Join(have, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func describe(entries []conntrack.Entry) (all []string) {
	for _, e := range entries {
		all = append(all, fmt.Sprint(e.Protocol, " ", e.Original, " ", e.Reply))
	}
	slices.Sort(all)
	return all
}

// queried compares the queries, as protocols with a port, since the last call.
func (r *rig) queried(when string, want ...string) {
	r.t.Helper()
	if have := r.kernel.takeQueries(); !slices.Equal(have, want) {
		r.t.Errorf("%s: queries %q, want %q", when, have, want)
	}
}

// fake is a kernel with connection tracking.
type fake struct {
	mu      stdsync.Mutex // guards all, but is not held while listing is called
	entries []conntrack.Entry
	queries []string
	listing func(conntrack.Query) error // called in the middle of List, if not nil
	denied  error                       // what Delete fails with
}

func (k *fake) List(q conntrack.Query, want func(conntrack.Entry) bool) ([]conntrack.Entry, error) {
	k.mu.Lock()
	k.queries = append(k.queries, strings.TrimSuffix(fmt.Sprintf("%s %d", q.Protocol, q.Port), " 0"))
	var found []conntrack.Entry
	for _, e := range k.entries {
		matches := q.Port == 0 || q.Port == e.Original.Port()
		if matches && e.Family() == q.Family && e.Protocol == q.Protocol && want(e) {
			found = append(found, e)
		}
	}
	listing := k.listing
	k.mu.Unlock()
	if listing != nil {
		return found, listing(q)
	}
	return found, nil
}

// held returns the remaining entries. Timers of the bubble do not order it before later
// writes.
func (k *fake) held() []conntrack.Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.entries)
}

func (k *fake) Delete(entries []conntrack.Entry) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.denied != nil {
		return 0, k.denied
	}
	before := len(k.entries)
	k.entries = slices.DeleteFunc(k.entries, func(e conntrack.Entry) bool { return slices.Contains(entries, e) })
	return before - len(k.entries), nil
}

// fail makes the kernel fail with these errors, which may be nil.
func (k *fake) fail(list, del error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listing, k.denied = func(conntrack.Query) error { return list }, del
}

// takeQueries returns the queries since the last call.
func (k *fake) takeQueries() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	queries := k.queries
	k.queries = nil
	return queries
}
