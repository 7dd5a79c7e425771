package takeover

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/leftovers"
)

// machine is a network namespace with nothing in it.
type machine struct {
	t    *testing.T
	host *lab.Host
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	return &machine{t, labtest.Alone(t)}
}

// run runs a program on the machine, which must succeed, and returns what it
// printed.
func (m *machine) run(stdin, program string, args ...string) string {
	m.t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path = "/usr/sbin/" + program // not every root's path has it
	}
	if _, err := os.Stat(path); err != nil {
		labtest.Lacking(m.t, err)
	}
	var out, complaint bytes.Buffer
	cmd := m.host.Command(m.t.Context(), path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &complaint
	if err := cmd.Run(); err != nil {
		m.t.Fatalf("%s %v: %v\n%s\nof:\n%s", program, args, err, &complaint, stdin)
	}
	return out.String()
}

// backend is how a backend of iptables is called in the names of its tools.
type backend string

const (
	nftBackend    backend = "nft"
	legacyBackend backend = "legacy"
)

// tool is the name of a tool for a family, "ip6tables-nft-save".
func (b backend) tool(f model.Family, verb string) string {
	return [...]string{model.IPv4: "iptables-", model.IPv6: "ip6tables-"}[f] + string(b) + "-" + verb
}

// loadIPTables loads a text of iptables-save.
func (m *machine) loadIPTables(b backend, f model.Family, text string) {
	m.t.Helper()
	m.run(text, b.tool(f, "restore"), "--noflush")
}

// loadForeign loads what others have: in a backend of iptables, and in nf_tables.
func (m *machine) loadForeign(b backend) {
	m.t.Helper()
	for _, f := range model.Families {
		m.loadIPTables(b, f, read(m.t, "foreign", f))
	}
	m.run(readFile(m.t, "testdata/foreign.nft"), "nft", "-f", "-")
}

// loadKubeProxy loads what kube-proxy writes in one of its modes that use
// iptables.
func (m *machine) loadKubeProxy(b backend, mode string) {
	m.t.Helper()
	for _, f := range model.Families {
		m.loadIPTables(b, f, asWritten(read(m.t, mode, f)))
	}
}

var (
	policies = regexp.MustCompile(`(?m)^:[A-Z]+ ACCEPT .*\n`)
	hooks    = regexp.MustCompile(`(?m)^-A ([A-Z]+ )`)
)

// asWritten turns a text of iptables-save into what was written to come to it:
// jumps stand before what is there already, and built-in chains are nobody's.
func asWritten(text string) string {
	return hooks.ReplaceAllString(policies.ReplaceAllString(text, ""), "-I $1")
}

// listing is all there is, with the numbers of nf_tables' rules, which change if
// a rule is deleted and made again.
func (m *machine) listing(b backend) string {
	m.t.Helper()
	all := m.run("", "nft", "-a", "list", "ruleset")
	for _, f := range model.Families {
		all += m.save(b, f)
	}
	return all
}

// save is what iptables-save prints, but for its comments, which have the time.
func (m *machine) save(b backend, f model.Family) string {
	m.t.Helper()
	return comments.ReplaceAllString(m.run("", b.tool(f, "save")), "")
}

var comments = regexp.MustCompile(`(?m)^#.*\n`)

// remove removes what is left in nf_tables and of IPVS.
func (m *machine) remove() []string {
	m.t.Helper()
	removed, err := leftovers.Remove(leftovers.Config{NetNS: m.host.FD()})
	if err != nil {
		m.t.Error(err)
	}
	return removed
}

func read(t *testing.T, name string, f model.Family) string {
	t.Helper()
	return readFile(t, "testdata/"+name+"."+nft.FamilyName(f))
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// same fails the test where two listings differ, and shows where.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	t.Errorf("%s differ in line %d:\n%s\nwant\n%s", what, n+1,
		strings.Join(a[n:min(n+10, len(a))], "\n"), strings.Join(b[n:min(n+10, len(b))], "\n"))
}
