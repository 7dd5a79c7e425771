package takeover

import (
	"slices"
	"strings"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// families makes of "table F kube-proxy" one line for each family.
func families(lines ...string) (all []string) {
	for _, f := range model.Families {
		for _, line := range lines {
			all = append(all, strings.ReplaceAll(line, "F ", nft.FamilyName(f)+" "))
		}
	}
	return all
}

func TestWhatKubeProxyLeftInNFTablesIsRemovedAndNothingElse(t *testing.T) {
	for _, tc := range []struct {
		mode    string
		load    func(*machine)
		removed []string // beginnings
	}{
		{
			"iptables", func(m *machine) { m.loadKubeProxy(nftBackend, "iptables") },
			families(
				"F nat: jumps (3), KUBE-MARK-MASQ, KUBE-NODEPORTS, KUBE-POSTROUTING, KUBE-PROXY-CANARY, KUBE-SERVICES, KUBE-EXT-* (2), ",
				"F filter: jumps (9), KUBE-EXTERNAL-SERVICES, KUBE-FORWARD, KUBE-NODEPORTS, KUBE-PROXY-CANARY, KUBE-PROXY-FIREWALL, KUBE-SERVICES",
				"F mangle: KUBE-PROXY-CANARY",
			),
		},
		{
			"ipvs", func(m *machine) { m.makeSets(); m.loadKubeProxy(nftBackend, "ipvs") },
			families(
				"F nat: jumps (3), KUBE-LOAD-BALANCER, KUBE-MARK-MASQ, KUBE-NODE-PORT, KUBE-POSTROUTING, KUBE-SERVICES",
				"F filter: jumps (6), KUBE-FORWARD, KUBE-IPVS-FILTER, KUBE-IPVS-OUT-FILTER, KUBE-NODE-PORT, KUBE-PROXY-FIREWALL, KUBE-SOURCE-RANGES-FIREWALL",
			),
		},
		{
			"nftables", func(m *machine) { m.run(readFile(m.t, "testdata/nftables.nft"), "nft", "-f", "-") },
			families("table F kube-proxy"),
		},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			m := newMachine(t)
			m.loadForeign(nftBackend)
			before := m.listing(nftBackend)
			tc.load(m)
			if m.listing(nftBackend) == before {
				t.Fatal("nothing was loaded that could be removed")
			}
			removed := m.remove()
			if !slices.EqualFunc(removed, tc.removed, strings.HasPrefix) {
				t.Errorf("removed\n%s\nwant\n%s", strings.Join(removed, "\n"), strings.Join(tc.removed, "\n"))
			}
			same(t, "what there was before kube-proxy and what there is after the removal", m.listing(nftBackend), before)
			m.removesNothing()
		})
	}
}

// removesNothing asserts that nothing is left to remove, and that nothing is
// written.
func (m *machine) removesNothing() {
	m.t.Helper()
	k, err := kernel.Open(kernel.Config{NetNS: m.host.FD()})
	if err != nil {
		m.t.Fatal(err)
	}
	defer k.Close()
	before, err := k.Generation()
	if err != nil {
		m.t.Fatal(err)
	}
	if removed := m.remove(); len(removed) > 0 {
		m.t.Errorf("the second time, removed %q", removed)
	}
	if after, err := k.Generation(); err != nil || after != before {
		m.t.Errorf("wrote nf_tables although nothing was left: generation %d, then %d, %v", before, after, err)
	}
}

func TestAnEmptyMachineHasNothingToRemove(t *testing.T) {
	newMachine(t).removesNothing()
}

func TestChainsThatOthersUseAreEmptied(t *testing.T) {
	m := newMachine(t)
	m.loadKubeProxy(nftBackend, "iptables")
	m.loadUsers(nftBackend)
	said := strings.Join(m.remove(), "\n")
	for _, f := range model.Families {
		for _, line := range []string{
			nft.FamilyName(f) + " nat: jumps (3), KUBE-NODEPORTS", "content of KUBE-SERVICES, which others use",
			nft.FamilyName(f) + " filter: jumps (9), KUBE-EXTERNAL-SERVICES", "content of KUBE-FORWARD, which others use",
		} {
			if !strings.Contains(said, line) {
				t.Errorf("removed\n%s\nwithout %q", said, line)
			}
		}
	}
	m.checkUsers(nftBackend)
	m.removesNothing()
}

// A map of others may lead to a chain, which only the kernel knows.
func TestAChainInAMapOfOthersIsEmptied(t *testing.T) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			m := newMachine(t)
			m.loadKubeProxy(nftBackend, "iptables")
			m.run(strings.NewReplacer("FAMILY", nft.FamilyName(f)).Replace(`
				add map FAMILY nat mine { type inet_service : verdict; }
				add element FAMILY nat mine { 80 : jump KUBE-SERVICES, 81 : jump KUBE-MARK-MASQ, 82 : goto KUBE-NODEPORTS }
				add map FAMILY filter mine { type inet_service : verdict; }
				add element FAMILY filter mine { 80 : jump KUBE-FORWARD }
			`), "nft", "-f", "-")
			m.remove()
			var left []string
			for line := range strings.Lines(m.save(nftBackend, f)) {
				if strings.Contains(line, "KUBE-") {
					left = append(left, strings.TrimSpace(line))
				}
			}
			slices.Sort(left)
			want := []string{
				"-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
				":KUBE-FORWARD - [0:0]", ":KUBE-MARK-MASQ - [0:0]", ":KUBE-NODEPORTS - [0:0]", ":KUBE-SERVICES - [0:0]",
			}
			if !slices.Equal(left, want) {
				t.Errorf("left is\n%s\nwant\n%s", strings.Join(left, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
