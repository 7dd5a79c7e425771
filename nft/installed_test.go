package nft

import (
	"cmp"
	"fmt"
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
