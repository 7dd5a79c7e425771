package takeover

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// families returns "table F kube-proxy" for each family.
func families(lines ...string) (all []string) {
	for _, f := range model.Families {
		for _, line := range lines {
			all = append(all, strings.ReplaceAll(line, "F ", nft.FamilyName(f)+" "))
		}
	}
	return all
}

func TestOnlyKubeProxyIsRemovedFromNftables(t *testing.T) {
	for _, tc := range []struct {
		mode    string
		load    func(*machine)
		removed []string // prefixes
	}{
		{
			"iptables", func(m *machine) { m.loadKubeProxy(nftBackend, "iptables") },
			families(
				"F nat: jumps (3), chains (",
				"F filter: jumps (9), chains (6)",
				"F mangle: chains (1)",
			),
		},
		{
			"ipvs", func(m *machine) { m.addIPSets(); m.loadKubeProxy(nftBackend, "ipvs") },
			families(
				"F nat: jumps (3), chains (5)",
				"F filter: jumps (6), chains (6)",
			),
		},
		{
			"nftables", func(m *machine) { m.run(nftablesMode(m.t), "nft", "-f", "-") },
			families("table F kube-proxy"),
		},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			m := newMachine(t)
			m.loadForeign(nftBackend)
			before := m.listing(nftBackend)
			tc.load(m)
			if m.listing(nftBackend) == before {
				t.Fatal("no rules of kube-proxy were loaded")
			}
			removed := m.remove()
			if !slices.EqualFunc(removed, tc.removed, strings.HasPrefix) {
				t.Errorf("removed\n%s\nwant\n%s", strings.Join(removed, "\n"), strings.Join(tc.removed, "\n"))
			}
			same(t, "listings before kube-proxy and after the removal", m.listing(nftBackend), before)
			m.expectNothingToRemove()
		})
	}
}

// expectNothingToRemove checks that nothing remains to be removed, and that nothing is
// written.
func (m *machine) expectNothingToRemove() {
	m.t.Helper()
	k := labtest.Kernel(m.t, m.host)
	before, err := k.Generation()
	if err != nil {
		m.t.Fatal(err)
	}
	if removed := m.remove(); len(removed) > 0 {
		m.t.Errorf("the second time, removed %q", removed)
	}
	if after, err := k.Generation(); err != nil || after != before {
		m.t.Errorf("committed although nothing remained: generation %d, then %d, %v", before, after, err)
	}
}

func TestEmptyMachineHasNothingToRemove(t *testing.T) {
	newMachine(t).expectNothingToRemove()
}

// TestChainsInUseAreEmptied checks that users are unchanged, and that their jumps have no effect
// except for the mark.
func TestChainsInUseAreEmptied(t *testing.T) {
	m := newMachine(t)
	m.loadKubeProxy(nftBackend, "iptables")
	for _, f := range model.Families {
		m.loadIPTables(nftBackend, f, users)
	}
	output := strings.Join(m.remove(), "\n")
	for _, f := range model.Families {
		for _, line := range []string{
			nft.FamilyName(f) + " nat: jumps (3), chains (", "content of KUBE-SERVICES, which others use",
			nft.FamilyName(f) + " filter: jumps (9), chains (", "content of KUBE-FORWARD, which others use",
		} {
			if !strings.Contains(output, line) {
				t.Errorf("removed\n%s\nwithout %q", output, line)
			}
		}
		for table, want := range expectedAfterRemoval {
			text := m.run("", nftBackend.tool(f, "save"), "-t", table)
			same(t, "remaining and expected rules", builtin.ReplaceAllString(comments.ReplaceAllString(text, ""), ""), want)
		}
	}
	m.expectNothingToRemove()
}

// users are rules of other programs that use chains of kube-proxy.
const users = `*nat
:CNI-HOSTPORT-SETMARK - [0:0]
:MINE - [0:0]
-A PREROUTING -p tcp -m tcp --dport 81 -j KUBE-MARK-MASQ
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j KUBE-MARK-MASQ
-A MINE -m comment --comment mine -g KUBE-SERVICES
COMMIT
*filter
:MINE - [0:0]
-A MINE -j KUBE-FORWARD
COMMIT
`

// expectedAfterRemoval is the content of tables with users after the removal.
var expectedAfterRemoval = map[string]string{
	"nat": `*nat
:CNI-HOSTPORT-SETMARK - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SERVICES - [0:0]
:MINE - [0:0]
-A PREROUTING -p tcp -m tcp --dport 81 -j KUBE-MARK-MASQ
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A MINE -m comment --comment mine -g KUBE-SERVICES
COMMIT
`,
	"filter": `*filter
:KUBE-FORWARD - [0:0]
:MINE - [0:0]
-A MINE -j KUBE-FORWARD
COMMIT
`,
	"mangle": `*mangle
COMMIT
`,
}

var builtin = regexp.MustCompile(`(?m)^:[A-Z]+ [A-Z]+ .*\n`)
