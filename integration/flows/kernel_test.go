package flows

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
)

func TestFlowsOfAllZonesAndWithAnySourceEnd(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	var stay, end []flow
	for _, f := range model.Families {
		for i, zone := range []flow{{}, {zone: 7}, {zone: 65535}, {oneWay: 9}} {
			for j, by := range []string{"ep1", "ep3"} {
				e := zone
				e.protocol, e.client, e.to, e.by = model.UDP, at(f, "client", 4000+uint16(i)), at(f, "vip", 53), at(f, by, 53)
				masqueraded := e
				masqueraded.client = at(f, "client", 5000+uint16(2*i+j))
				masqueraded.sees = at(f, "node", masqueraded.client.Port())
				if by == "ep3" {
					e.client = at(f, "client", 4100+uint16(i))
					end = append(end, e, masqueraded)
				} else {
					stay = append(stay, e, masqueraded)
				}
			}
		}
	}
	x.add(slices.Concat(stay, end)...)
	set := []model.Frontend{
		frontend(model.IPv4, model.UDP, "vip", 53, at(model.IPv4, "ep1", 53)),
		frontend(model.IPv6, model.UDP, "vip", 53, at(model.IPv6, "ep1", 53)),
	}
	x.check(x.follow(x.open()).tell(sync.Committed{Set: set}, 2), stay, end)
}

func TestTheSameTupleInAnotherZoneIsAnotherFlow(t *testing.T) {
	t.Parallel()
	for _, f := range model.Families {
		x := newTable(t)
		e := flow{protocol: model.UDP, client: at(f, "client", 4000), to: at(f, "vip", 53), by: at(f, "ep1", 53)}
		zone := e
		zone.zone, zone.by = 7, at(f, "ep2", 53)
		x.add(e, zone)
		c := x.open()
		found := x.list(c, conntrack.Query{Family: f, Protocol: model.UDP}, func(c conntrack.Entry) bool { return c.Reply == zone.by })
		x.delete(c, found, 1)
		x.expect([]flow{e})
	}
}

func TestAFlowThatTookThePlaceOfAnotherStays(t *testing.T) {
	t.Parallel()
	for _, f := range model.Families {
		x := newTable(t)
		old := flow{protocol: model.UDP, client: at(f, "client", 4000), to: at(f, "vip", 53), by: at(f, "ep1", 53)}
		fresh := old
		fresh.by = at(f, "ep2", 53)
		x.add(old)
		c := x.open()
		found := x.list(c, conntrack.Query{Family: f, Protocol: model.UDP}, every)
		x.delete(c, found, 1)
		x.delete(c, found, 0)
		x.add(fresh)
		x.delete(c, found, 0)
		x.expect([]flow{fresh})
	}
}

func TestManyFlowsThatAreGoneAlreadyAreNoError(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	stay, end := crowd(model.IPv6, 4000)
	x.add(slices.Concat(stay, end)...)
	c := x.open()
	found := x.list(c, conntrack.Query{Family: model.IPv6, Protocol: model.UDP}, every)
	x.delete(c, slices.DeleteFunc(slices.Clone(found), isStale), len(stay))
	x.delete(c, found, len(end))
	x.delete(c, found, 0)
	x.expect(nil)
}

func TestFewPortsAreSeenAloneAndOfASmallTableAll(t *testing.T) {
	t.Parallel()
	for _, f := range model.Families {
		for flows, seen := range map[int][]int{ // by the number of ports
			2000:   {2000, 20, 2000, 2000},
			14_000: {14_000, 140, 280, 14_000}, // to walk the table twice takes less than to see all
		} {
			x := newTable(t)
			stay, end := crowd(f, flows)
			x.add(slices.Concat(stay, end)...)
			for _, p := range model.Protocols { // of others nothing is seen
				if p != model.UDP {
					x.add(flow{protocol: p, client: at(f, "client", 1), to: at(f, "vip", 100), by: at(f, "ep1", 100)})
				}
			}
			other := at(1-f, "vip", 100)
			x.add(flow{protocol: model.UDP, client: at(1-f, "client", 1), to: other, by: other})
			c := x.open()
			for ports, want := range seen {
				q, have := conntrack.Query{Family: f, Protocol: model.UDP}, 0
				for i := range ports {
					q.Ports = append(q.Ports, 100+uint16(i))
				}
				x.list(c, q, func(e conntrack.Entry) bool {
					have++
					if e.Family() != f || e.Protocol != model.UDP {
						t.Errorf("asked for UDP of %s, saw %v", f, e)
					}
					return false
				})
				if have != want {
					t.Errorf("asked for %d ports of %d %s flows, saw %d flows, want %d", ports, flows, f, have, want)
				}
			}
		}
	}
}

func TestStaleFlowsOfManyEnd(t *testing.T) {
	t.Parallel()
	for _, f := range model.Families {
		x := newTable(t)
		stay, end := crowd(f, 20_000)
		follower := x.follow(x.open())
		follower.tell(sync.Committed{Full: true, Set: crowdFrontends(f, true)}, 1)
		x.add(slices.Concat(stay, end)...)
		x.check(follower.tell(sync.Committed{Set: crowdFrontends(f, false)}, 1), stay, end)
	}
}

func TestFlowsMayComeAndGoMeanwhile(t *testing.T) {
	t.Parallel()
	const rounds = 4
	for _, f := range model.Families {
		x := newTable(t)
		stay, end := crowd(f, 2000)
		x.add(stay...)
		follower := x.follow(x.open())
		follower.tell(sync.Committed{Full: true, Set: crowdFrontends(f, true)}, 1)
		traffic := make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		go func() { traffic <- x.comeAndGo(ctx, f) }()
		deleted := 0
		for range rounds {
			x.add(end...)
			deleted += follower.tell(sync.Committed{Full: true, Set: crowdFrontends(f, false)}, 1)
		}
		stop()
		if err := <-traffic; err != nil {
			t.Fatal(err)
		}
		if deleted != rounds*len(end) {
			t.Errorf("%d flows were ended, want %d", deleted, rounds*len(end))
		}
		x.expect(stay)
	}
}

// comeAndGo makes and ends flows that are nobody's business, until ctx ends.
func (x *table) comeAndGo(ctx context.Context, f model.Family) error {
	c := x.open()
	var batch []flow
	for i := range uint16(2000) {
		batch = append(batch, flow{protocol: model.UDP, client: at(f, "client", 20000+i), to: at(f, "other", 9), by: at(f, "ep3", 9)})
	}
	for ctx.Err() == nil {
		if err := x.tryAdd(batch); err != nil {
			return err
		}
		own := func(e conntrack.Entry) bool { return e.Original.Port() == 9 }
		found, err := c.List(conntrack.Query{Family: f, Protocol: model.UDP, Ports: []uint16{9}}, own)
		if err != nil {
			return err
		}
		if n, err := c.Delete(found); err != nil || n != len(batch) {
			return fmt.Errorf("deleted %d of %d that nobody else may delete: %w", n, len(batch), err)
		}
	}
	return nil
}

func every(conntrack.Entry) bool { return true }

// list lists, and must.
func (x *table) list(c *conntrack.Conntrack, q conntrack.Query, want func(conntrack.Entry) bool) []conntrack.Entry {
	x.t.Helper()
	found, err := c.List(q, want)
	if err != nil {
		x.t.Fatal(err)
	}
	return found
}

// delete ends entries, of which so many must still be there.
func (x *table) delete(c *conntrack.Conntrack, entries []conntrack.Entry, want int) {
	x.t.Helper()
	if n, err := c.Delete(entries); n != want || err != nil {
		x.t.Errorf("deleted %d of %d: %v, want %d", n, len(entries), err, want)
	}
}

// crowdServices is how many Services a crowd of flows uses, each with a port of
// its own.
const crowdServices = 100

// crowd are n flows of Services, one in ten of which is stale.
func crowd(f model.Family, n int) (stay, end []flow) {
	for i := range n {
		service := uint16(i % crowdServices)
		e := flow{protocol: model.UDP, client: client(f, i), to: at(f, "vip", 100+service), by: at(f, "ep1", 100+service)}
		if i/crowdServices%10 == 9 {
			e.by = at(f, "ep3", 100+service)
			end = append(end, e)
		} else {
			stay = append(stay, e)
		}
	}
	return stay, end
}

// client is one of many.
func client(f model.Family, i int) netip.AddrPort {
	a := plan[f]["client"]
	b := a.AsSlice()
	b[len(b)-2], b[len(b)-1] = byte(100+i>>16), byte(i>>8)
	a, _ = netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a, uint16(4000+i&0xff))
}

func isStale(e conntrack.Entry) bool { return e.Reply.Addr() == plan[e.Family()]["ep3"] }

// crowdFrontends are the Services of a crowd, with or without what is stale in
// it.
func crowdFrontends(f model.Family, former bool) (all []model.Frontend) {
	for port := uint16(100); port < 100+crowdServices; port++ {
		endpoints := []netip.AddrPort{at(f, "ep1", port)}
		if former {
			endpoints = append(endpoints, at(f, "ep3", port))
		}
		all = append(all, frontend(f, model.UDP, "vip", port, endpoints...))
	}
	return all
}
