package legacy

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// suspendedSave is what iptables-legacy-save prints of a table with a suspended chain, one that
// is awake, an empty one, one of another program, and one that no hook leads to.
const suspendedSave = `*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
:MINE - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A KUBE-SERVICES -m comment --comment "suspended by kube-vmap" -j RETURN
-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-MARK-MASQ
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A MINE -m comment --comment "suspended by kube-vmap" -j RETURN
COMMIT
`

func TestFindNamesChainsByState(t *testing.T) {
	n := newNode(t, map[string]string{"ip_tables_names": "nat\nraw\n", "ip6_tables_names": "nat\nfilter\n"})
	n.install(t, "iptables-legacy", 0)
	n.print(t, "iptables-legacy", suspendedSave)
	got, err := find(t.Context(), n.source)
	want := Found{
		Awake:     []string{"iptables-legacy nat: KUBE-POSTROUTING"},
		Suspended: []string{"iptables-legacy nat: KUBE-SERVICES"},
		Unknown:   []string{"ip6tables-legacy nat filter"},
	}
	if !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("found %+v, %v; want %+v", got, err, want)
	}
	if calls := n.called(t); strings.Contains(calls, "restore") {
		t.Errorf("called %s", calls)
	}
}

func TestSuspendAndResumeChangeHookedChainsOnly(t *testing.T) {
	for _, tc := range []struct {
		name     string
		change   func(*node) ([]string, error)
		what     string
		commands string
	}{
		{
			"suspend", func(n *node) ([]string, error) { return suspend(t.Context(), n.source) },
			"KUBE-POSTROUTING", `-I KUBE-POSTROUTING 1 -m comment --comment "suspended by kube-vmap" -j RETURN`,
		},
		{
			"resume", func(n *node) ([]string, error) { return resume(t.Context(), n.source) },
			"KUBE-SERVICES", `-D KUBE-SERVICES -m comment --comment "suspended by kube-vmap" -j RETURN`,
		},
	} {
		for _, program := range []string{"iptables-legacy", "ip6tables-legacy"} {
			n := newNode(t, map[string]string{"ip_tables_names": "nat\n", "ip6_tables_names": "nat\n"})
			for _, b := range backends {
				n.install(t, b.program, 0)
			}
			n.print(t, program, suspendedSave)
			n.print(t, map[bool]string{true: "iptables-legacy", false: "ip6tables-legacy"}[program[2] == '6'], "*nat\nCOMMIT\n")
			done, err := tc.change(n)
			if want := program + " nat: " + tc.what; len(done) != 1 || done[0] != want || err != nil {
				t.Errorf("%s: done %q, %v; want %q", tc.name, done, err, want)
			}
			want := program + "-restore --noflush -w 5\n*nat\n" + tc.commands + "\nCOMMIT\n"
			if calls := n.called(t); !strings.Contains(calls, want) || strings.Count(calls, "restore") != 1 {
				t.Errorf("%s: called\n%s\nwithout\n%s", tc.name, calls, want)
			}
		}
	}
}

func TestSuspendWithoutProgramsIsAnError(t *testing.T) {
	n := newNode(t, map[string]string{"ip_tables_names": "nat\n"})
	done, err := suspend(t.Context(), n.source)
	if len(done) > 0 || err == nil || !strings.Contains(err.Error(), `"iptables-legacy nat"`) {
		t.Errorf("done %q, error %v", done, err)
	}
	none := newNode(t, nil)
	if done, err := suspend(t.Context(), none.source); len(done) > 0 || err != nil {
		t.Errorf("without tables, done %q, error %v", done, err)
	}
}

// print changes what the installed program prints.
func (n *node) print(t *testing.T, family, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "printed")
	write(t, path, text, 0o644)
	write(t, filepath.Join(n.bin, family+"-save"), "#!/bin/sh\n/bin/cat "+path+"\n", 0o755)
}
