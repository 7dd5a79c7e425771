package shadow

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/shadow"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// iptablesNFT is the backend of iptables whose rules are compared, as its programs are named.
const iptablesNFT = "nft"

// mode is the mode of kube-proxy.
func (r *rig) mode() string {
	if r.backend != "" {
		return "iptables"
	}
	return "nftables"
}

// iptables are the names of the programs, by family.
var iptables = [...]string{model.IPv4: "iptables", model.IPv6: "ip6tables"}

// iptablesPath returns an environment in which the programs of iptables are those of the
// backend.
func (r *rig) iptablesPath() []string {
	r.t.Helper()
	if r.backend == "" {
		return nil
	}
	dir := r.t.TempDir()
	for _, name := range iptables {
		for _, verb := range []string{"", "-save", "-restore"} {
			program, err := exec.LookPath(name + "-" + r.backend + verb)
			if err != nil {
				labtest.Lacking(r.t, err)
			}
			r.must(os.Symlink(program, filepath.Join(dir, name+verb)))
		}
	}
	return []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
}

// awaitIPTables waits for a text in the rules of both families.
func (r *rig) awaitIPTables(text string) {
	r.t.Helper()
	r.await(patience, func() error {
		for f := range iptables {
			if !strings.Contains(r.save(model.Family(f), "nat"), text) {
				return fmt.Errorf("no rule with %q in %s", text, model.Family(f))
			}
		}
		return nil
	})
}

// save lists the rules of a table.
func (r *rig) save(f model.Family, table string) string {
	r.t.Helper()
	out, err := r.command(iptables[f]+"-"+r.backend+"-save", "-t", table)
	if err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	return out
}

// restore changes rules of a table by lines of iptables-restore.
func (r *rig) restore(f model.Family, table string, lines ...string) {
	r.t.Helper()
	c := r.Node.Command(r.t.Context(), iptables[f]+"-"+r.backend+"-restore", "--noflush")
	text := "*" + table + "\n" + strings.Join(lines, "\n") + "\nCOMMIT\n"
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil {
		r.t.Fatalf("%v: %s\n%s", err, out, text)
	}
}

// TestNothingDiffersFromIPTablesModeButWhatIsIntended compares a whole scene, in which rules
// of other programs in the same chains make no difference, and one with a rule for another port.
func TestNothingDiffersFromIPTablesModeButWhatIsIntended(t *testing.T) {
	t.Parallel()
	r := newRigOf(t, iptablesNFT, append(scene(), intended()...))
	for f := range iptables {
		f := model.Family(f)
		r.restore(f, "nat", ":CNI-POSTROUTING - [0:0]", "-I POSTROUTING 1 -j CNI-POSTROUTING", "-A CNI-POSTROUTING -m addrtype --dst-type UNICAST -j MASQUERADE")
		r.restore(f, "filter", ":FORWARD DROP [0:0]")
	}
	report, code := r.settled("--all")
	for _, line := range unintended(report) {
		t.Error(line)
	}
	if code != 0 || report.Pending != 0 || !strings.HasPrefix(report.Mode, "iptables") {
		t.Errorf("mode %s, exit code %d, %d differences are pending", report.Mode, code, report.Pending)
	}
	t.Logf("%d Service ports, %d addresses, %d packets; intended: %v", report.Services, report.Frontends, report.Packets, report.Intended)

	r.stop()
	for f := range iptables {
		f := model.Family(f)
		rule := regexp.MustCompile(`-A (KUBE-SERVICES .*default/plain:tcp-0 cluster IP.* --dport) 80 (.*)`).FindStringSubmatch(r.save(f, "nat"))
		r.restore(f, "nat", "-D "+rule[1]+" 80 "+rule[2], "-A "+rule[1]+" 81 "+rule[2])
	}
	r.wantOnly([]expected{
		{"plain:tcp-0", shadow.KindVerdict, "not translated"}, {"plain:tcp-0", shadow.KindVerdict, "rejected with a TCP reset"},
	})
}
