package ruleset

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/eventually"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// checkListings lists the rule set with every version of nft, and loads the listing.
func checkListings(t *testing.T, p *proxy) {
	t.Helper()
	for _, nft := range versions(t) {
		t.Run("nft "+nft.version, func(t *testing.T) {
			nft.mustBeHad(t)
			for _, f := range model.Families {
				checkListing(t, p, nft, f)
			}
		})
	}
}

// checkListing has a version list the table of one family, and load the listing,
// and what Render writes, all with the same outcome.
func checkListing(t *testing.T, p *proxy, nft program, f model.Family) {
	t.Helper()
	listing := nft.listTable(p.machine, f)
	check := func(how, have, want string) {
		if have, want = anyOrder(have), anyOrder(want); have != want {
			t.Errorf("%s:%s", how, firstDifference(have, want))
		}
	}
	check("listed by this version and the installed one", listing, installed(t).listTable(p.machine, f))
	if !nft.loads(p.world, f) {
		return
	}
	again := newMachine(t)
	nft.load(again, listing)
	check("the listing, loaded and listed again", nft.listTable(again, f), listing)
	byText := newMachine(t)
	nft.load(byText, rendered(t, p.rules, f))
	check("what Render wrote, loaded and listed", nft.listTable(byText, f), listing)
}

// What would make goldens of thousands of lines.
func TestNftListsAndLoadsLargeRuleSets(t *testing.T) {
	t.Parallel()
	for name, scene := range map[string]string{
		"Maglev": `
			clusterip 10.96.0.11:80/tcp+udp+sctp shop/web always mh -> 10.244.1.1:80 x3`,
		"more endpoints than slots, and clients remembered": `
			clusterip 10.96.0.11:80/tcp shop/web always affinity=90s -> 10.244.1.1:80 x256`,
		"more endpoints than slots, one after the other, of this node": `
			clusterip 10.96.0.11:80/udp shop/web always rr local=300 -> 10.244.1.1:80 x300
			nodeport 30080/udp shop/web policy=local`,
		"more endpoints than slots, by a hash, which gives way": `
			clusterip 10.96.0.11:80/sctp shop/web always sh -> 10.244.1.1:80 x300
			clusterip 10.96.0.12:80/sctp shop/other always mh -> 10.244.1.1:80 x300`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := start(newMachine(t), parseWorld(scene))
			checkListings(t, p)
		})
	}
}

// Elements of a map that packets fill say how long they last, and for how long
// yet: what one lists while they are there, one can load.
func TestNftListsAndLoadsAffinity(t *testing.T) {
	for _, f := range model.Families {
		for _, nft := range versions(t) {
			t.Run("nft "+nft.version+", "+f.String(), func(t *testing.T) {
				nft.mustBeHad(t)
				p, _ := start(newMachine(t), readGolden(t, "affinity").world("frontends"))
				for i, timeout := range []string{"1s", "1m30s", "1h30m", "3h", "1d"} {
					client := address(sourceRanges[f], i)
					installed(t).load(p.machine, "add element "+commands("T affinity { ", f)+client.String()+
						commands(" . C . sctp . 80 timeout ", f)+timeout+" : f0ab:7 }")
				}
				o := nft.run(p.machine, "", "list", "table", commands("FAM", f), "kube-vmap")
				if n := strings.Count(o.stdout, " expires "); o.err != nil || o.stderr != "" || n < 4 {
					t.Fatalf("%d clients are listed: %v\n%s%s", n, o.err, o.stderr, o.stdout)
				}
				if !nft.loads(p.world, f) {
					return
				}
				again := newMachine(t)
				nft.load(again, o.stdout)
				if n := strings.Count(nft.listTable(again, f), ". sctp . 80 timeout "); n < 4 {
					t.Errorf("%d clients are loaded", n)
				}
				p.check() // they are no concern of ours
				p.turn(p.world.without())
			})
		}
	}
}

func render(t testing.TB, r *nft.Ruleset) string {
	t.Helper()
	var text strings.Builder
	if err := r.Render(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func rendered(t testing.TB, r *nft.Ruleset, f model.Family) string {
	t.Helper()
	const second = "add table ip6 "
	first, rest, found := strings.Cut(render(t, r), second)
	if !found {
		t.Fatal("what Render wrote is not one family behind the other")
	}
	if f == model.IPv4 {
		return first
	}
	return second + rest
}

// counting is a machine that counts connections, of which there are some.
func counting(t *testing.T) (*proxy, [2][]nft.ConnectionCount) {
	t.Helper()
	p, _ := start(newMachine(t), readGolden(t, "walk").world("frontends"))
	var lists [2][]nft.ConnectionCount
	for _, f := range model.Families {
		for i := range 5000 {
			c := nft.ConnectionCount{
				Destination: model.Match{Family: f, Addr: address(sourceRanges[f], i%40), Protocol: model.Protocols[i%3], Port: 80},
				Endpoint:    netip.AddrPortFrom(address(sourceRanges[f], i), 8080),
				Connections: uint64(i)<<40 + 1,
			}
			if i < 40 {
				c.Endpoint = netip.AddrPort{}
			}
			lists[f] = append(lists[f], c)
		}
		nft.SortConnections(lists[f])
		p.machine.apply(nft.Batch{nft.AddConnections{Family: f, List: lists[f]}})
		p.machine.awaitConnections(f, lists[f])
	}
	return p, lists
}

// awaitConnections waits until these are read: while the set grows, some may be missing.
func (m *machine) awaitConnections(f model.Family, want []nft.ConnectionCount) {
	m.t.Helper()
	eventually.Succeeds(m.t, "connections are counted", func() error {
		if got := m.connections(f); !slices.Equal(got, want) {
			return fmt.Errorf("%s: %d are read, otherwise than %d that are wanted", nft.FamilyName(f), len(got), len(want))
		}
		return nil
	})
}

func (m *machine) connections(f model.Family) []nft.ConnectionCount {
	m.t.Helper()
	list, err := m.kernel.Connections(f)
	if err != nil {
		m.t.Fatal(err)
	}
	return list
}

func TestKernelKeepsWrittenCounts(t *testing.T) {
	p, lists := counting(t)
	p.check() // what was counted is no concern of ours
	for _, f := range model.Families {
		// Two counts become one, whose key existed before.
		gone, sum := lists[f][:3], uint64(0)
		for i := range gone {
			sum += gone[i].Connections
		}
		former := nft.ConnectionCount{Destination: gone[0].Destination, Connections: sum}
		if gone[0].Endpoint.IsValid() || gone[1].Destination != gone[0].Destination || gone[2].Destination != gone[0].Destination {
			t.Fatalf("%v are not of one address", gone)
		}
		p.machine.apply(nft.Batch{nft.DeleteConnections{Family: f, List: gone}, nft.AddConnections{Family: f, List: []nft.ConnectionCount{former}}})
		p.machine.awaitConnections(f, append([]nft.ConnectionCount{former}, lists[f][3:]...))
		_, err := p.machine.kernel.Apply(nft.Batch{nft.DeleteConnections{Family: f, List: gone[1:2]}})
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: deleted again: %v", nft.FamilyName(f), err)
		}
	}
}

func TestNftListsAndLoadsConnections(t *testing.T) {
	p, lists := counting(t)
	for _, f := range model.Families {
		for _, nft := range versions(t) {
			t.Run("nft "+nft.version+", "+f.String(), func(t *testing.T) {
				nft.mustBeHad(t)
				o := nft.run(p.machine, "", "list", "table", commands("FAM", f), "kube-vmap")
				if n := strings.Count(o.stdout, " counter packets "); o.err != nil || o.stderr != "" || n < len(lists[f]) {
					t.Fatalf("%d counters are listed: %v\n%s", n, o.err, o.stderr)
				}
				again := newMachine(t)
				nft.load(again, o.stdout)
				again.awaitConnections(f, lists[f])
			})
		}
	}
}
