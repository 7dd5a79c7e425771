package takeover

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"kube-vmap/cmd/kube-vmap/legacy"
	product "kube-vmap/cmd/kube-vmap/takeover"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// removeLegacy removes kube-proxy from the legacy backend and returns the log, too.
func (m *machine) removeLegacy() (removed []string, log string) {
	m.t.Helper()
	var text bytes.Buffer
	err := m.host.Do(func() (err error) {
		removed, err = legacy.Remove(m.t.Context(), slog.New(slog.NewTextHandler(&text, nil)))
		return err
	})
	if err != nil {
		m.t.Error(err)
	}
	return removed, text.String()
}

// withTools adds the directories of system programs to the path.
func withTools(t *testing.T) {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
}

func TestOnlyKubeProxyIsRemovedFromLegacyIPTables(t *testing.T) {
	withTools(t)
	for _, tc := range []struct {
		mode    string
		prepare func(*machine)
		removed []string // prefixes
	}{
		{
			"iptables", func(*machine) {},
			[]string{
				"iptables-legacy nat: jumps (3), KUBE-MARK-MASQ, KUBE-NODEPORTS, ",
				"iptables-legacy filter: jumps (9), KUBE-EXTERNAL-SERVICES, ",
				"iptables-legacy mangle: KUBE-PROXY-CANARY",
				"ip6tables-legacy nat: jumps (3), KUBE-MARK-MASQ, KUBE-NODEPORTS, ",
				"ip6tables-legacy filter: jumps (9), KUBE-EXTERNAL-SERVICES, ",
				"ip6tables-legacy mangle: KUBE-PROXY-CANARY",
			},
		},
		{
			"ipvs", func(m *machine) { m.addIPSets() },
			[]string{
				"iptables-legacy nat: jumps (3), KUBE-LOAD-BALANCER, ",
				"iptables-legacy filter: jumps (6), KUBE-FORWARD, KUBE-IPVS-FILTER, ",
				"ip6tables-legacy nat: jumps (3), KUBE-LOAD-BALANCER, ",
				"ip6tables-legacy filter: jumps (6), KUBE-FORWARD, KUBE-IPVS-FILTER, ",
			},
		},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			m := newMachine(t)
			m.loadForeign(legacyBackend)
			before := m.listing(legacyBackend)
			tc.prepare(m)
			m.loadKubeProxy(legacyBackend, tc.mode)
			if m.listing(legacyBackend) == before {
				t.Fatal("no rules of kube-proxy were loaded")
			}
			removed, log := m.removeLegacy()
			if !slices.EqualFunc(removed, tc.removed, strings.HasPrefix) || log != "" {
				t.Errorf("removed\n%s\nwant\n%s\nlog: %s", strings.Join(removed, "\n"), strings.Join(tc.removed, "\n"), log)
			}
			same(t, "listings before kube-proxy and after the removal", m.listing(legacyBackend), before)
			if removed, log := m.removeLegacy(); len(removed) > 0 || log != "" {
				t.Errorf("the second time, removed %q, log: %s", removed, log)
			}
		})
	}
}

func TestLegacyChainsInUseAreEmptied(t *testing.T) {
	withTools(t)
	m := newMachine(t)
	m.loadKubeProxy(legacyBackend, "iptables")
	m.loadUsers(legacyBackend)
	m.removeLegacy()
	m.checkUsers(legacyBackend)
	if removed, _ := m.removeLegacy(); len(removed) > 0 {
		t.Errorf("the second time, removed %q", removed)
	}
}

// Removing one backend's rules does not change the other's.
func TestBackendsAreRemovedSeparately(t *testing.T) {
	withTools(t)
	m := newMachine(t)
	saved := map[backend]string{}
	for _, b := range []backend{nftBackend, legacyBackend} {
		m.loadKubeProxy(b, "iptables")
	}
	for _, b := range []backend{nftBackend, legacyBackend} {
		saved[b] = m.listing(b)
	}
	m.removeLegacy()
	same(t, "iptables-nft's rules before and after the removal of legacy ones", m.listing(nftBackend), saved[nftBackend])
	if m.listing(legacyBackend) == saved[legacyBackend] {
		t.Error("legacy rules were not removed")
	}
	saved[legacyBackend] = m.save(legacyBackend, model.IPv4)
	m.remove()
	same(t, "legacy rules before and after the removal of iptables-nft's", m.save(legacyBackend, model.IPv4), saved[legacyBackend])
	if m.listing(nftBackend) == saved[nftBackend] {
		t.Error("iptables-nft's rules were not removed")
	}
}

func TestMissingToolsAreAWarningIfThereAreTablesOfKubeProxy(t *testing.T) {
	m := newMachine(t)
	none := func(t *testing.T) {
		t.Helper()
		t.Setenv("PATH", t.TempDir())
		if unknown := m.findLegacy().Unknown; len(unknown) > 0 {
			t.Errorf("unknown %q", unknown)
		}
		if removed, log := m.removeLegacy(); len(removed) > 0 || log != "" {
			t.Errorf("removed %q, log: %s", removed, log)
		}
	}
	t.Run("no tables", none)
	for _, program := range []string{"iptables-legacy", "ip6tables-legacy"} {
		m.run("", program, "-t", "raw", "-N", "KUBE-SERVICES")
		m.run("", program, "-t", "nat", "-N", "MINE")
		m.run("", program, "-t", "filter", "-N", "KUBE-FIREWALL") // of the kubelet
		m.run("", program, "-t", "mangle", "-A", "FORWARD", "-m", "comment", "--comment", "KUBE-PROXY-CANARY", "-j", "ACCEPT")
	}
	t.Run("tables of others", none)
	m.run("", "iptables-legacy", "-t", "nat", "-N", "KUBE-SERVICES")
	m.run("", "ip6tables-legacy", "-t", "filter", "-N", "KUBE-FORWARD")
	m.run("", "ip6tables-legacy", "-t", "mangle", "-N", "KUBE-PROXY-CANARY")
	t.Run("tables of kube-proxy", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		want := []string{"iptables-legacy nat", "ip6tables-legacy filter mangle"}
		if found := m.findLegacy(); !slices.Equal(found.Unknown, want) {
			t.Errorf("found %+v, want the tables %q unknown", found, want)
		}
		removed, log := m.removeLegacy()
		if len(removed) > 0 || strings.Count(log, "\n") != 1 {
			t.Errorf("removed %q, log: %s", removed, log)
		}
		for _, word := range []string{"level=WARN", `"[iptables-legacy nat ip6tables-legacy filter mangle]"`, "kube-proxy --cleanup", "iptables-legacy-save | grep"} {
			if !strings.Contains(log, word) {
				t.Errorf("the log does not have %q: %s", word, log)
			}
		}
	})
}

func TestWithoutToolsLargeLegacyTablesAreNotRead(t *testing.T) {
	m := newMachine(t)
	rule := "-A MINE -m comment --comment " + strings.Repeat("x", 200) + " -j ACCEPT\n" // at least 500 bytes
	rules := "*filter\n:MINE - [0:0]\n" + strings.Repeat(rule, 40_000) + "COMMIT\n"
	m.run(rules, "iptables-legacy-restore")
	m.run(rules, "ip6tables-legacy-restore")
	t.Setenv("PATH", t.TempDir())
	unknown := m.findLegacy().Unknown
	if !slices.EqualFunc(unknown, []string{"iptables-legacy filter (", "ip6tables-legacy filter ("}, strings.HasPrefix) ||
		strings.Count(strings.Join(unknown, ""), "more than 16777216)") != 2 {
		t.Errorf("unknown %q", unknown)
	}
}

// onHost runs fn in the machine's network namespace.
func (m *machine) onHost(fn func() error) {
	m.t.Helper()
	if err := m.host.Do(fn); err != nil {
		m.t.Error(err)
	}
}

func (m *machine) findLegacy() (found legacy.Found) {
	m.t.Helper()
	m.onHost(func() (err error) { found, err = legacy.Find(m.t.Context()); return err })
	return found
}

// suspendLegacy and resumeLegacy return what they did.
func (m *machine) suspendLegacy() (names []string) {
	m.t.Helper()
	m.onHost(func() (err error) { names, err = legacy.Suspend(m.t.Context()); return err })
	return names
}

func (m *machine) resumeLegacy() (names []string) {
	m.t.Helper()
	m.onHost(func() (err error) { names, err = legacy.Resume(m.t.Context()); return err })
	return names
}

func TestResumeUndoesSuspendOfLegacyByteForByte(t *testing.T) {
	withTools(t)
	for _, mode := range []string{"iptables", "ipvs"} {
		t.Run(mode, func(t *testing.T) {
			m := newMachine(t)
			m.loadForeign(legacyBackend)
			if mode == "ipvs" {
				m.addIPSets()
			}
			if found, did := m.findLegacy(), m.suspendLegacy(); len(found.Awake)+len(found.Suspended)+len(found.Unknown)+len(did) > 0 {
				t.Errorf("without kube-proxy, found %+v, suspended %q", found, did)
			}
			m.loadKubeProxy(legacyBackend, mode)
			before := m.listing(legacyBackend)
			awake := m.findLegacy().Awake
			for range 2 {
				if did := m.suspendLegacy(); !slices.Equal(did, awake) || len(awake) != 4 {
					t.Errorf("suspended %q, awake were %q", did, awake)
				}
				if found := m.findLegacy(); len(found.Awake) > 0 || !slices.Equal(found.Suspended, awake) {
					t.Errorf("after the suspension, found %+v", found)
				}
				same(t, "other rules before and during the suspension", withoutSuspension(m.listing(legacyBackend)), before)
				if did := m.suspendLegacy(); len(did) > 0 {
					t.Errorf("the second time, suspended %q", did)
				}
				if did := m.resumeLegacy(); !slices.Equal(did, awake) {
					t.Errorf("resumed %q, awake were %q", did, awake)
				}
				same(t, "listings before the suspension and after going back", m.listing(legacyBackend), before)
			}
		})
	}
}

// TestRefusedCleanupLeavesLegacyRulesSuspended cleans up beside a kube-vmap that owns its tables.
func TestRefusedCleanupLeavesLegacyRulesSuspended(t *testing.T) {
	withTools(t)
	m := newMachine(t)
	m.loadKubeProxy(legacyBackend, "iptables")
	m.suspendLegacy()
	before := m.listing(legacyBackend)
	m.onHost(func() error {
		owner, err := kernel.Open(kernel.Config{})
		if err != nil {
			return err
		}
		if _, err := owner.Apply(nft.Batch{nft.AddTable{Family: model.IPv4, Protected: true}}); err != nil {
			return errors.Join(err, owner.Close())
		}
		other, err := kernel.Open(kernel.Config{})
		if err != nil {
			return errors.Join(err, owner.Close())
		}
		if _, err := product.Cleanup(t.Context(), other, true); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("the cleanup beside the owner: %v", err)
		}
		return errors.Join(other.Close(), owner.Close())
	})
	m.run("delete table ip kube-vmap", "nft", "-f", "-")
	same(t, "listings before and after the cleanup", m.listing(legacyBackend), before)
}
