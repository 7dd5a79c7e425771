package flows

import (
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/flows"
)

// check compares the remaining flows, and the number of deleted ones.
func (x *table) check(deleted int, keep, stale []flow) {
	x.t.Helper()
	if len(stale) == 0 || deleted != len(stale) {
		x.t.Errorf("deleted %d flows, want %d", deleted, len(stale))
	}
	x.remain(keep)
}

// addressPlan are the addresses of a family, by name: "vip" is a ClusterIP, "node" and
// "remote" are nodes.
var addressPlan = [...]map[string]netip.Addr{
	model.IPv4: addresses("vip 10.96.0.10 node 192.0.2.1 " +
		"remote 192.0.2.9 client 10.244.1.100 ep1 10.244.1.1 ep2 10.244.1.2 ep3 10.244.1.3"),
	model.IPv6: addresses("vip fd00:10:96::10 node 2001:db8:2::1 " +
		"remote 2001:db8:2::9 client fd00:10:244::100 ep1 fd00:10:244::1 ep2 fd00:10:244::2 ep3 fd00:10:244::3"),
}

func addresses(words string) map[string]netip.Addr {
	all := map[string]netip.Addr{}
	for pair := range slices.Chunk(strings.Fields(words), 2) {
		all[pair[0]] = netip.MustParseAddr(pair[1])
	}
	return all
}

// at returns a port at an address of the plan.
func at(f model.Family, name string, port uint16) netip.AddrPort {
	a, ok := addressPlan[f][name]
	if !ok {
		panic("flows: unknown address " + name)
	}
	return netip.AddrPortFrom(a, port)
}

// nodeAddrs are the node's addresses, of both families.
var nodeAddrs = []netip.Addr{addressPlan[model.IPv4]["node"], addressPlan[model.IPv6]["node"]}

// frontend returns a frontend at an address of the plan, or a node port if that is "". Flows to
// its endpoints are not stale.
func frontend(f model.Family, p model.Protocol, name string, port uint16, endpoints ...netip.AddrPort) model.Frontend {
	m := model.Match{Family: f, Addr: addressPlan[f][name], Protocol: p, Port: port}
	endpoints = slices.SortedFunc(slices.Values(endpoints), netip.AddrPort.Compare)
	return model.Frontend{Match: m, Pool: &model.Pool{FlowEndpoints: endpoints}}
}

type follower struct {
	*flows.Flows
	t testing.TB
	// done receives the number of deleted entries each time a family is reconciled.
	done chan int
}

func (x *table) follow(k *conntrack.Conntrack) *follower {
	f := &follower{t: x.t, done: make(chan int, 100)}
	f.Flows = flows.New(flows.Config{Reconciled: func(_ model.Family, deleted int, _ time.Duration) { f.done <- deleted }},
		k, slog.New(slog.NewTextHandler(x.t.Output(), nil)))
	ended := make(chan error)
	go func() { ended <- f.Run(x.t.Context()) }()
	x.t.Cleanup(func() { // after the context ended
		if err := <-ended; err != nil {
			x.t.Errorf("Run: %v", err)
		}
	})
	return f
}

// commit passes a commit to the follower and waits until a number of families are reconciled.
// It returns how many entries were deleted.
func (f *follower) commit(t sync.Committed, families int) (deleted int) {
	f.t.Helper()
	t.NodeAddrs = nodeAddrs
	f.Follow(t)
	for range families {
		select {
		case n := <-f.done:
			deleted += n
		case <-time.After(20 * time.Second):
			f.t.Fatal("not done after 20 seconds")
		}
	}
	return deleted
}
