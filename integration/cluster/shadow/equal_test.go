package shadow

import (
	"regexp"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/shadow"
	"kube-vmap/model"
)

// TestNothingDiffersFromKubeProxyButWhatIsIntended compares a whole scene.
func TestNothingDiffersFromKubeProxyButWhatIsIntended(t *testing.T) {
	t.Parallel()
	newRig(t, "nftables", append(scene(), intended()...)).checkEqual()
}

// checkEqual checks that nothing differs that is not intended.
func (r *rig) checkEqual() {
	r.t.Helper()
	report, code := r.settled("--all")
	for _, line := range unintended(report) {
		r.t.Error(line)
	}
	if code != 0 || report.Pending != 0 || !strings.HasPrefix(report.Mode, r.mode) {
		r.t.Errorf("mode %s, exit code %d, %d differences are pending", report.Mode, code, report.Pending)
	}
	r.t.Logf("%d Service ports, %d addresses, %d packets; intended: %v", report.Services, report.Frontends, report.Packets, report.Intended)
}

// iptables are the names of the programs, by family.
var iptables = [...]string{model.IPv4: "iptables-nft", model.IPv6: "ip6tables-nft"}

// restore changes rules of a table by lines of iptables-restore.
func (r *rig) restore(program, table string, lines ...string) {
	r.t.Helper()
	c := r.Node.Command(r.t.Context(), program+"-restore", "--noflush")
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
	r := newRig(t, "iptables", append(scene(), intended()...))
	for _, program := range iptables {
		r.restore(program, "nat", ":CNI-POSTROUTING - [0:0]", "-I POSTROUTING 1 -j CNI-POSTROUTING", "-A CNI-POSTROUTING -m addrtype --dst-type UNICAST -j MASQUERADE")
		r.restore(program, "filter", ":FORWARD DROP [0:0]")
	}
	r.checkEqual()
	r.stop()
	for _, program := range iptables {
		rules, err := r.command(program+"-save", "-t", "nat")
		r.must(err)
		rule := regexp.MustCompile(`-A (KUBE-SERVICES .*default/plain:tcp-0 cluster IP.* --dport) 80 (.*)`).FindStringSubmatch(rules)
		r.restore(program, "nat", "-D "+rule[1]+" 80 "+rule[2], "-A "+rule[1]+" 81 "+rule[2])
	}
	r.wantOnly([]expected{
		{"plain:tcp-0", shadow.KindVerdict, "not translated"}, {"plain:tcp-0", shadow.KindVerdict, "rejected with a TCP reset"},
	})
}
