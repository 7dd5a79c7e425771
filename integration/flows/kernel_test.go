package flows

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
)

// TestStaleFlowsOfAllZonesAndSourcesAreDeleted has flows to an endpoint, to a former one, and to none,
// which were not translated; and some of other protocols. The tests of sync/follow/flows have all kinds
// of addresses.
func TestStaleFlowsOfAllZonesAndSourcesAreDeleted(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	var keep, stale []flow
	for _, f := range model.Families {
		for i, zone := range []flow{{}, {zone: 7}, {zone: 65535}, {oneWay: 9}} {
			for j, by := range []string{"ep1", "ep3", "vip"} {
				e := zone
				e.protocol, e.client, e.to, e.by = model.UDP, at(f, "client", 4000+uint16(3*i+j)), at(f, "vip", 53), at(f, by, 53)
				masqueraded := e
				masqueraded.client = at(f, "client", 5000+uint16(3*i+j))
				masqueraded.sees = at(f, "node", masqueraded.client.Port())
				if by == "ep1" {
					keep = append(keep, e, masqueraded)
				} else {
					stale = append(stale, e, masqueraded)
				}
				e.protocol = model.TCP
				masqueraded.protocol = model.SCTP
				keep = append(keep, e, masqueraded)
			}
		}
	}
	x.add(slices.Concat(keep, stale)...)
	set := []model.Frontend{
		frontend(model.IPv4, model.UDP, "vip", 53, at(model.IPv4, "ep1", 53)),
		frontend(model.IPv6, model.UDP, "vip", 53, at(model.IPv6, "ep1", 53)),
	}
	x.check(x.follow(x.open()).commit(sync.Committed{Set: set}, 2), keep, stale)
}

func TestDeleteSparesAFlowThatReplacedAnother(t *testing.T) {
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
		x.remain([]flow{fresh})
	}
}

func TestDeleteOfManyMissingFlowsIsNoError(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	keep, stale := crowd(model.IPv6, 4000)
	x.add(slices.Concat(keep, stale)...)
	c := x.open()
	found := x.list(c, conntrack.Query{Family: model.IPv6, Protocol: model.UDP}, every)
	x.delete(c, slices.DeleteFunc(slices.Clone(found), isStale), len(keep))
	x.delete(c, found, len(stale))
	x.delete(c, found, 0)
	x.remain(nil)
}

func TestListFiltersByProtocolAndPort(t *testing.T) {
	t.Parallel()
	for _, f := range model.Families {
		x := newTable(t)
		keep, stale := crowd(f, 2000)
		x.add(slices.Concat(keep, stale)...)
		for _, p := range model.Protocols {
			if p != model.UDP {
				x.add(flow{protocol: p, client: at(f, "client", 1), to: at(f, "vip", 100), by: at(f, "ep1", 100)})
			}
		}
		other := at(1-f, "vip", 100)
		x.add(flow{protocol: model.UDP, client: at(1-f, "client", 1), to: other, by: other})
		for port, want := range map[uint16]int{0: 2000, 100: 20} {
			seen := 0
			x.list(x.open(), conntrack.Query{Family: f, Protocol: model.UDP, Port: port}, func(conntrack.Entry) bool {
				seen++
				return false
			})
			if seen != want {
				t.Errorf("of port %d of %s listed %d flows, want %d", port, f, seen, want)
			}
		}
	}
}

func every(conntrack.Entry) bool { return true }

// list lists entries, and fails the test on an error.
func (x *table) list(c *conntrack.Conntrack, q conntrack.Query, want func(conntrack.Entry) bool) []conntrack.Entry {
	x.t.Helper()
	found, err := c.List(q, want)
	if err != nil {
		x.t.Fatal(err)
	}
	return found
}

// delete deletes entries, of which a number must still exist.
func (x *table) delete(c *conntrack.Conntrack, entries []conntrack.Entry, want int) {
	x.t.Helper()
	if n, err := c.Delete(entries); n != want || err != nil {
		x.t.Errorf("deleted %d of %d: %v, want %d", n, len(entries), err, want)
	}
}

// crowdServices is the number of Services of a crowd of flows, each with a port of its own.
const crowdServices = 100

// crowd returns n flows of Services, one in ten of which is stale.
func crowd(f model.Family, n int) (keep, stale []flow) {
	for i := range n {
		service := uint16(i % crowdServices)
		e := flow{protocol: model.UDP, client: client(f, i), to: at(f, "vip", 100+service), by: at(f, "ep1", 100+service)}
		if i/crowdServices%10 == 9 {
			e.by = at(f, "ep3", 100+service)
			stale = append(stale, e)
		} else {
			keep = append(keep, e)
		}
	}
	return keep, stale
}

func client(f model.Family, i int) netip.AddrPort {
	a := addressPlan[f]["client"]
	b := a.AsSlice()
	b[len(b)-2], b[len(b)-1] = byte(100+i>>16), byte(i>>8)
	a, _ = netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a, uint16(4000+i&0xff))
}

func isStale(e conntrack.Entry) bool { return e.Reply.Addr() == addressPlan[e.Family()]["ep3"] }

// TestWalksSeparateAnsweredEntries has entries of every protocol and family with and without a
// reply, of two endpoints, and others whose destination was not translated.
func TestWalksSeparateAnsweredEntries(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	var all []flow
	type kind struct {
		family   model.Family
		protocol model.Protocol
		replied  bool
	}
	of := map[kind][]flow{}
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			for i, replied := range []bool{false, true} {
				for j, by := range []string{"ep1", "ep2"} {
					port := uint16(4000 + 10*i + j)
					e := flow{protocol: p, client: at(f, "client", port), to: at(f, "vip", 80), by: at(f, by, 8080)}
					e.translated, e.replied = true, replied
					x.add(e, flow{protocol: p, client: at(f, "remote", port), to: e.by, by: e.by, replied: replied})
					all, of[kind{f, p, replied}] = append(all, e), append(of[kind{f, p, replied}], e)
				}
			}
		}
	}
	c := x.open()
	ids := x.expect("translated", c.EachTranslated, all)
	if again := x.expect("translated", c.EachTranslated, all); !maps.Equal(again, ids) {
		t.Errorf("numbers %v changed to %v", ids, again)
	}
	for k, want := range of {
		each := func(begin func(), fn func(conntrack.Entry)) error {
			if k.replied {
				return c.EachAnswered(k.family, k.protocol, begin, fn)
			}
			return c.EachUnanswered(k.family, k.protocol, begin, fn)
		}
		x.expect(fmt.Sprintf("%+v", k), each, want)
	}
}
