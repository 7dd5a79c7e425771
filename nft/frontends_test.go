package nft

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/model"
)

// A list is like a hash table whose frontends are sorted, however its pieces are divided.
func TestFrontendListIsSortedAndComplete(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var l frontendList
	want := map[model.Match]*frontendState{}
	match := func() model.Match {
		n := random.IntN(40 * pieceLen)
		m := model.Match{Family: model.Families[n%2], Protocol: model.TCP, Port: uint16(n / 4)}
		if n%4 < 2 { // else it is a node port
			m.Addr = [...]netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(n / 64)}), netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(n / 64)})}[n%2]
		}
		return m
	}
	for step := range 12 {
		var set []placedFrontend
		chosen := map[model.Match]bool{}
		var removed []model.Match
		for range 20 * pieceLen {
			m := match()
			if chosen[m] {
				continue
			}
			chosen[m] = true
			if random.IntN(12) < step { // more and more
				removed = append(removed, m)
			} else {
				f := &frontendState{Frontend: model.Frontend{Match: m, Kind: model.Kind(random.IntN(2))}}
				set = append(set, placedFrontend{f, l.find(m)})
			}
		}
		for _, m := range removed {
			delete(want, m)
		}
		for _, f := range set {
			want[f.Match] = f.frontendState
		}
		before := l.clone()
		old := slices.Collect(before.all())
		l.change(set, removed)
		if !slices.Equal(slices.Collect(before.all()), old) {
			t.Fatal("a change changed a copy")
		}
		checkFrontendList(t, &l, want)
	}
	for m := range want {
		l.remove(m)
	}
	checkFrontendList(t, &l, nil)
}

func checkFrontendList(t *testing.T, l *frontendList, want map[model.Match]*frontendState) {
	t.Helper()
	got := slices.Collect(l.all())
	if len(got) != len(want) || l.len != len(want) {
		t.Fatalf("the list has %d frontends, and length %d; want %d", len(got), l.len, len(want))
	}
	if !slices.IsSortedFunc(got, func(a, b *frontendState) int { return a.Match.Compare(b.Match) }) {
		t.Fatal("the list is not sorted")
	}
	count := map[netip.Addr]addressCount{}
	for m, f := range want {
		if l.at(m) != f {
			t.Fatalf("%s is not in the list", m)
		}
		count[m.Addr] = count[m.Addr].plus(f.addressCount(), 1)
	}
	for _, f := range got {
		if n := l.countAt(f.Match.Addr); f.Match.Addr.IsValid() && n != count[f.Match.Addr] {
			t.Fatalf("address %s has %+v, want %+v", f.Match.Addr, n, count[f.Match.Addr])
		}
	}
}
