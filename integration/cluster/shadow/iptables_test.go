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
	"kube-vmap/integration/daemon"
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

// TestNothingDiffersFromIPTablesModeButWhatIsIntended compares a whole scene. Rules of other
// programs in the same chains make no difference.
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
}

// An iptablesFault changes kube-proxy's rules of one Service port.
type iptablesFault struct {
	service string
	// find matches the rule that is replaced, with the name of the Service in place of NAME.
	table, find, replace string
	kind, text           string // of the difference that must be found
}

var iptablesFaults = []iptablesFault{
	{"swapped", "nat", `-A KUBE-SERVICES -d (\S+) -p tcp .*NAME:tcp cluster IP.* -j KUBE-SVC-\S+`, "-A KUBE-SERVICES -d $1 -p tcp -m tcp --dport 80 -j OTHER", shadow.KindEndpoints, "only here"},
	{"lacking", "nat", `-A KUBE-SVC-(\S+) -m comment --comment "default/NAME:tcp -> \S+:8080" -m statistic --mode random --probability 0.25\d* .*`, "", shadow.KindEndpoints, "only here"},
	{
		"uneven", "nat", `-A KUBE-SVC-(\S+) (-m comment --comment "default/NAME:tcp -> \S+:8080") -m statistic --mode random --probability 0.25\d* (.*)`,
		"-A KUBE-SVC-$1 $2 -m statistic --mode random --probability 0.5 $3", shadow.KindShares, "50 %",
	},
	{"marked", "nat", `-A KUBE-EXT-\S+ -m comment --comment "masquerade traffic for default/NAME:tcp external destinations" -j KUBE-MARK-MASQ`, "", shadow.KindMasquerade, "sees the client"},
	{"nothing", "filter", `-A KUBE-(?:SERVICES|EXTERNAL-SERVICES) -d (\S+) -p tcp -m comment --comment "default/NAME:tcp has no endpoints" .*`, "", shadow.KindVerdict, "rejected"},
	{"forgetful", "nat", `-A KUBE-SEP-(\S+) -p tcp -m comment --comment "default/NAME:tcp" -m recent --set \S+ \S+ --mask \S+ --rsource (.*)`, "-A KUBE-SEP-$1 -p tcp $2", shadow.KindAffinity, "none"},
	{"ranged", "nat", `-A KUBE-FW-(\S+) -s (?:198.51.100.0/24|2001:db8:9::/48) (.*NAME:tcp.*)`, "-A KUBE-FW-$1 -s 198.51.100.0/25 $2", shadow.KindSourceRanges, ""},
	{"unserved", "nat", `-A KUBE-NODEPORTS -p tcp -m comment --comment "default/NAME:tcp" .*`, "", shadow.KindVerdict, "not translated"},
}

func iptablesFaultScene() []daemon.Service {
	var names []string
	for _, f := range iptablesFaults {
		names = append(names, f.service)
	}
	return faultyScene(names)
}

// seed changes the first rule that matches.
func (r *rig) seed(f model.Family, fault iptablesFault) {
	r.t.Helper()
	replace := fault.replace
	rules := r.save(f, fault.table)
	if strings.Contains(replace, "OTHER") {
		other := regexp.MustCompile(`-p tcp .*default/other:tcp cluster IP.* -j (KUBE-SVC-\S+)`).FindStringSubmatch(rules)
		replace = strings.Replace(replace, "OTHER", other[1], 1)
	}
	if f == model.IPv6 {
		replace = strings.Replace(replace, "198.51.100.0/25", "2001:db8:9::/49", 1)
	}
	pattern := regexp.MustCompile(`(?m)^` + strings.ReplaceAll(fault.find, "NAME", fault.service) + `$`)
	line := pattern.FindString(rules)
	if line == "" {
		r.t.Fatalf("%s: no rule %s in\n%s", fault.service, pattern, rules)
	}
	chain := strings.Fields(line)[1]
	var before int
	for _, l := range strings.Split(rules, "\n") {
		if l == line {
			break
		}
		if strings.HasPrefix(l, "-A "+chain+" ") {
			before++
		}
	}
	lines := []string{fmt.Sprintf("-D %s %d", chain, before+1)}
	if replace != "" {
		text := pattern.ReplaceAllString(line, replace)
		lines = append(lines, fmt.Sprintf("-I %s %d %s", chain, before+1, strings.TrimPrefix(text, "-A "+chain+" ")))
	}
	r.restore(f, fault.table, lines...)
}

// TestEveryFaultInIPTablesModeIsFound changes a rule of each of several Services, in both
// families.
func TestEveryFaultInIPTablesModeIsFound(t *testing.T) {
	t.Parallel()
	r := newRigOf(t, iptablesNFT, iptablesFaultScene())
	r.awaitIPTables("default/unserved:tcp")
	if report, _ := r.shadow(); len(unintended(report)) > 0 {
		t.Fatalf("before: %q", unintended(report))
	}
	r.stop()
	var want []expected
	for _, fault := range iptablesFaults {
		for f := range iptables {
			r.seed(model.Family(f), fault)
		}
		want = append(want, expected{fault.service, fault.kind, fault.text})
	}
	r.wantOnly(want)
}
