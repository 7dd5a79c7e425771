package nft

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"kube-vmap/model"
)

// readable is the part of a frontend that tables have.
func readable(s InstalledFrontend) string {
	kind, policy, treatment, scheduler := s.Kind, fmt.Sprint(s.Policy), fmt.Sprint(s.Masquerade), "none"
	if kind == model.KindLoadBalancerIP {
		kind = model.KindExternalIP
	}
	switch s.Verdict {
	case model.VerdictReject, model.VerdictHold:
		policy = "unknown"
	case model.VerdictDrop: // samples have some of Cluster policy, which the model never drops
		policy = fmt.Sprint(model.PolicyLocal)
	}
	if !s.Served() {
		treatment = "unknown"
	}
	if n := len(s.Cluster) + len(s.Local); n > 0 {
		p := frontendState{Frontend: *s.Frontend}
		scheduler = fmt.Sprint(methodSchema[p.target().Method].scheduler, s.Pool.Affinity)
	}
	return fmt.Sprintf("%s %s of %s: policy %s, verdict %d, masquerade %s, restricted %v to %v but %v, pool %v by %s, slots %v and %v",
		kind, s.Match, s.Service, policy, s.Verdict, treatment, s.Restricted, outermost(s.Sources), outermost(s.Denied), poolKey(s), scheduler, s.Cluster, s.Local)
}

// poolKey is the ClusterIP of the pool, which a frontend without endpoints does not need.
func poolKey(s InstalledFrontend) string {
	if !s.IsClusterIP() && !s.Served() {
		return "unknown"
	}
	return s.Pool.Key.String()
}

func readables(all []InstalledFrontend) []string {
	slices.SortFunc(all, func(a, b InstalledFrontend) int { return cmp.Or(a.Match.Compare(b.Match)) })
	out := make([]string, len(all))
	for i := range all {
		out[i] = readable(all[i])
	}
	return out
}

// TestInstalledFrontendsOfTables compares the frontends read back with the state, for
// Services of every kind.
func TestInstalledFrontendsOfTables(t *testing.T) {
	for _, n := range []int{0, 1, 12, 300} {
		rules, _ := load(n)
		got, want := readables(rules.Tables().Installed()), readables(rules.Installed())
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%d Services: -state +read\n%s", n, diff)
		}
		if n == 300 && len(want) < 1000 {
			t.Errorf("300 Services have %d frontends only", len(want))
		}
		if got := rules.Tables().NodeAddrs(); !slices.Equal(got, rules.NodeAddrs()) {
			t.Errorf("node addresses are read as %v, want %v", got, rules.NodeAddrs())
		}
		one := rules.Tables()
		one[model.IPv4] = nil
		counts := one.CountsConnections()
		delete(one[model.IPv6].Sets, SetID{Family: model.IPv6, Kind: SetConnections}.Name())
		if !counts || one.CountsConnections() {
			t.Errorf("connections are counted: %t with a set for them, %t without", counts, one.CountsConnections())
		}
	}
}

// TestInstalledIgnoresForeignElements checks that nothing in tables makes reading them
// fail.
func TestInstalledIgnoresForeignElements(t *testing.T) {
	rules, _ := load(12)
	tables := rules.Tables()
	for f := range tables {
		delete(tables[f].Sets, "node-port-service-ips")
		delete(tables[f].Sets, "endpoints-0")
		for _, name := range []string{"services", "node-ports"} {
			list := tables[f].Sets[name].Elements
			for i := range list {
				list[i].Value = Value{}
				list[i].Comment = strings.Repeat("x", i)
			}
		}
	}
	for _, s := range tables.Installed() {
		if s.Served() && s.Verdict == model.VerdictBalance {
			t.Errorf("%s is served by nothing", s.Match)
		}
	}
	if got := (Tables{}).Installed(); len(got) != 0 {
		t.Errorf("of no tables, %v is read", got)
	}
}

func TestInstalledIsNotChangedByCommits(t *testing.T) {
	rules, _ := load(12)
	before := rules.Installed()
	want := readables(slices.Clone(before))
	change := Change{Removed: []model.Match{before[0].Match}}
	for _, s := range before[1:] {
		f := *s.Frontend
		pool := *f.Pool
		f.Pool, f.Policy = &pool, model.PolicyCluster
		pool.Cluster = nil
		change.Set = append(change.Set, f)
	}
	rules.Commit(rules.Plan(change))
	if diff := gocmp.Diff(want, readables(before)); diff != "" {
		t.Errorf("a commit changed it: -before +after\n%s", diff)
	}
	if n := len(rules.Installed()); n != len(before)-1 {
		t.Errorf("%d are installed, want %d", n, len(before)-1)
	}
}

func TestAdoptKeepsSizesThatAreEnough(t *testing.T) {
	id := SetID{Family: model.IPv4, Kind: SetServices}
	rules, _ := load(12)
	elements := uint32(len(rules.Elements()[id]))
	for size, want := range map[uint32]uint32{4096: 4096, elements: elements, elements - 1: 384, 0: 384} {
		have := rules.Tables()
		set := have[id.Family].Sets[id.Name()]
		set.Shape.Size = size
		have[id.Family].Sets[id.Name()] = set
		adopted, _ := Adopt(sampleConfig, have, sample(12))
		if got := adopted.Tables()[id.Family].Sets[id.Name()].Shape.Size; got != want {
			t.Errorf("a set of size %d with %d elements gets size %d, want %d", size, elements, got, want)
		}
	}
}

func TestTablesThatCannotBeChangedAreReplaced(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*Table)
		protect bool
		want    bool
	}{
		"unchanged":               {func(*Table) {}, false, false},
		"unchanged and protected": {func(*Table) {}, true, false},
		"dormant":                 {func(t *Table) { t.Dormant = true }, false, true},
		"alien":                   {func(t *Table) { t.Alien = true }, false, true},
		"protected":               {func(t *Table) { t.Protected = true }, false, true},
		"no longer protected":     {func(t *Table) { t.Protected = false }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			config := sampleConfig
			config.Protect = tt.protect
			rules, _ := Adopt(config, Tables{}, sample(12))
			have := rules.Tables()
			tt.change(have[model.IPv6])
			_, batch := Adopt(config, have, sample(12))
			if got := slices.Contains(batch, Op(DeleteTable{model.IPv6})); got != tt.want {
				t.Errorf("the table is deleted: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestTablesOfAnotherOwnerAreNotWritable(t *testing.T) {
	for name, tt := range map[string]struct {
		table              *Table
		foreign, ownerless bool
	}{
		"no table":               {nil, false, false},
		"table without owner":    {&Table{}, false, true},
		"table whose owner left": {&Table{Protected: true}, false, true},
		"own table":              {&Table{Protected: true, Owner: 7}, false, false},
		"table of another owner": {&Table{Protected: true, Owner: 8}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			tables := Tables{model.IPv6: tt.table}.MarkForeign(7)
			if err := tables.Writable(); errors.Is(err, fs.ErrPermission) != tt.foreign || (err != nil) != tt.foreign {
				t.Errorf("writing is refused: %v, want %t", err, tt.foreign)
			}
			if got := tables.Orphaned(); got != tt.ownerless {
				t.Errorf("there is a table without owner: %t, want %t", got, tt.ownerless)
			}
		})
	}
}

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
