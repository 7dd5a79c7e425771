package shadow

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/exit"
)

func TestExitCodeIsThatOfDifferencesThatCount(t *testing.T) {
	counting, meant, unclear := Difference{Kind: KindShares}, Difference{Kind: KindShares, Intended: "weights"}, Difference{Kind: KindUnknown}
	for _, tc := range []struct {
		name string
		r    Report
		want int
	}{
		{"nothing", Report{}, 0},
		{"intended", Report{Differences: []Difference{meant}}, 0},
		{"one that counts", Report{Differences: []Difference{unclear, meant, counting}}, 1},
		{"more than are kept", Report{More: 1}, 1},
		{"rules that are not understood", Report{Differences: []Difference{unclear}}, exit.Trouble},
		{"not confirmed", Report{Pending: 1}, exit.Trouble},
		{"one that counts, others not confirmed", Report{Differences: []Difference{counting}, Pending: 1}, 1},
	} {
		if got := tc.r.exitCode(); got != tc.want {
			t.Errorf("%s: exit code %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestTextListsWhatCountsAndCountsWhatIsIntended(t *testing.T) {
	found := []Difference{
		{Service: "shop/web", Frontend: "*:30080/tcp", Family: "IPv6", Kind: KindVerdict, Clients: []string{"pod", "node"}, Ours: "dropped", Theirs: "to 2 endpoints"},
		{Service: "shop/web", Frontend: "10.96.0.1:80/tcp", Family: "IPv4", Kind: KindVerdict, Clients: []string{"pod"}, Intended: "conflicting claims: shop/a", reason: intendedConflict},
		{Service: "shop/db", Frontend: "10.96.0.2:80/tcp", Family: "IPv4", Kind: KindVerdict, Clients: []string{"pod"}, Intended: "conflicting claims: shop/b", reason: intendedConflict},
	}
	for _, all := range []bool{false, true} {
		r := Report{Mode: "nftables", Services: 3, Frontends: 4, Packets: 5, Dormant: []string{"IPv4"}, Differences: slices.Clone(found)}
		r.countIntended(all)
		var out bytes.Buffer
		if err := r.writeText(&out); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range []string{
			"shop/web *:30080/tcp (IPv6) verdict pod,node dropped to 2 endpoints <no>",
			"(nftables): 3 Service ports, 4 addresses, 5 packets; 1 differences",
			"intended: 2 x conflicting claims", "rules for IPv4 are dormant",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("all %t: no %q in\n%s", all, want, out.String())
			}
		}
		if strings.Contains(text, "shop/db") != all {
			t.Errorf("all %t:\n%s", all, out.String())
		}
	}
}
