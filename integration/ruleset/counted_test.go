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
