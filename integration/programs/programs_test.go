package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-vmap/cmd/programs"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/nft/foreign/dump"
)

// read reads the host's tables, interfaces and ports, but no process and no file.
func read(t *testing.T, h *lab.Host) (n *programs.Node) {
	t.Helper()
	empty := t.TempDir()
	if err := h.Do(func() error {
		n = programs.Read(programs.Config{Proc: empty, CNIConfig: filepath.Join(empty, "none")})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, u := range n.Unseen {
		if u.What != "processes" {
			t.Errorf("not seen: %+v", u)
		}
	}
	return n
}

func ids(findings []programs.Finding) (ids []string) {
	for _, f := range findings {
		ids = append(ids, f.ID)
	}
	return ids
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const fixtures = "../takeover/testdata/"

// nftablesMode is what shows kube-proxy's nftables mode.
const nftablesMode = `
	table ip kube-proxy { chain nat-prerouting { type nat hook prerouting priority dstnat; accept; }; }
	table ip6 kube-proxy { chain nat-prerouting { type nat hook prerouting priority dstnat; accept; }; }
`

// with returns a function that runs commands on a host, with this input.
func with(stdin string, commands ...string) func(*testing.T, *lab.Host) {
	return func(t *testing.T, h *lab.Host) {
		t.Helper()
		for _, command := range commands {
			words := strings.Fields(command)
			labtest.Run(t, h, stdin, words[0], words[1:]...)
		}
	}
}

func TestComponentsAreFoundByWhatTheyLeft(t *testing.T) {
	for _, tc := range []struct {
		name, want, evidence string
		prepare              func(t *testing.T, h *lab.Host)
	}{
		{"empty node", "", "", with("")},
		{
			"kube-proxy's nftables mode", "kube-proxy-nftables", "table kube-proxy (ip), kube-proxy (ip6)",
			with(nftablesMode, "nft -f -"),
		},
		{
			"kube-proxy's iptables mode, nft backend", "kube-proxy-iptables", "chain KUBE-SERVICES in ip nat, KUBE-SERVICES in ip6 nat",
			func(t *testing.T, h *lab.Host) { iptables(t, h, "nft") },
		},
		{
			"kube-proxy's iptables mode, legacy backend", "kube-proxy-iptables-legacy", "chain KUBE-SERVICES in ip nat (legacy), KUBE-SERVICES in ip6 nat (legacy)",
			func(t *testing.T, h *lab.Host) { iptables(t, h, "legacy") },
		},
		{
			"Calico's chains", "calico-iptables", "chain cali-FORWARD in ip filter, cali-INPUT in ip filter (legacy)",
			with("", "iptables-nft -N cali-FORWARD", "iptables-legacy -N cali-INPUT"),
		},
		{
			"Calico's table, and a chain left from another mode", "calico-nftables", "table calico (ip), calico (ip6)",
			with("", "nft add table ip calico", "nft add table ip6 calico", "iptables-nft -N cali-FORWARD"),
		},
		{
			"interfaces", "flannel bridge docker", "interface flannel.1",
			with("", "ip link add cni0 type veth", "ip link add docker0 type veth", "ip link add flannel.1 type veth"),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := labtest.Alone(t)
			tc.prepare(t, h)
			found := programs.Find(read(t, h))
			if got := strings.Join(ids(found), " "); got != tc.want {
				t.Errorf("found %q, want %q", got, tc.want)
			}
			has := func(f programs.Finding) bool { return slices.Contains(f.Evidence, tc.evidence) }
			if tc.evidence != "" && !slices.ContainsFunc(found, has) {
				t.Errorf("%+v lacks %q", found, tc.evidence)
			}
		})
	}
}

// iptables loads kube-proxy's rules of iptables mode.
func iptables(t *testing.T, h *lab.Host, backend string) {
	t.Helper()
	labtest.Run(t, h, readFile(t, fixtures+"iptables.ip"), "iptables-"+backend+"-restore")
	labtest.Run(t, h, readFile(t, fixtures+"iptables.ip6"), "ip6tables-"+backend+"-restore")
}

func TestSurveyReportsHooksPoliciesAndComments(t *testing.T) {
	h := labtest.Alone(t)
	labtest.Run(t, h, `
		table inet filter {
			comment "by hand"
			chain in { type filter hook input priority 0; policy drop; }
			chain other { }
		}
		table ip kube-proxy {
			flags dormant
			chain marker { }
		}
	`, "nft", "-f", "-")
	labtest.Run(t, h, "*filter\n:FORWARD DROP [0:0]\n:MINE - [0:0]\n-A FORWARD -j MINE\nCOMMIT\n", "ip6tables-legacy-restore")
	tables, err := dump.Tables(h.FD())
	if err != nil {
		t.Fatal(err)
	}
	var legacy []dump.Table
	if err := h.Do(func() (err error) { legacy, err = dump.Legacy(0); return err }); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, table := range append(tables, legacy...) {
		got += fmt.Sprintf("%s dormant=%t %q", table.String(), table.Dormant, table.Comment)
		for _, c := range table.Chains {
			got += fmt.Sprintf(" {%s hook=%s drop=%t}", c.Name, c.Hook, c.Drop)
		}
		got += "\n"
	}
	want := `inet filter dormant=false "by hand" {in hook=input drop=true} {other hook= drop=false}
ip kube-proxy dormant=true "" {marker hook= drop=false}
ip6 filter (legacy) dormant=false "" {MINE hook= drop=false}
`
	if got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// TestProgramsThatServePodsThemselvesAreNamed: nothing has to be done, but part of the traffic never
// gets to kube-vmap.
func TestProgramsThatServePodsThemselvesAreNamed(t *testing.T) {
	r := check(t, labtest.Alone(t), "antrea-agent")
	if i := item(t, r, "Antrea"); i.Verdict != programs.Partial || !strings.Contains(i.Detail, "explain do not see them") {
		t.Errorf("%+v", i)
	}
}
