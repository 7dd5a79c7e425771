package takeover

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/kubeproxy"
)

// A machine is an empty network namespace.
type machine struct {
	t    *testing.T
	host *lab.Host
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	return &machine{t, labtest.Alone(t)}
}

// run runs a program on the machine, which must succeed, and returns its output.
func (m *machine) run(stdin, program string, args ...string) string {
	m.t.Helper()
	return labtest.Run(m.t, m.host, stdin, program, args...)
}

// A backend is a backend of iptables, as in the names of its tools.
type backend string

const (
	nftBackend    backend = "nft"
	legacyBackend backend = "legacy"
)

// tool returns the name of a tool for a family, as in "ip6tables-nft-save".
func (b backend) tool(f model.Family, verb string) string {
	return [...]string{model.IPv4: "iptables-", model.IPv6: "ip6tables-"}[f] + string(b) + "-" + verb
}

func (m *machine) loadIPTables(b backend, f model.Family, text string) {
	m.t.Helper()
	m.run(text, b.tool(f, "restore"), "--noflush")
}

// loadForeign loads rules of other programs in a backend of iptables, and in nf_tables.
func (m *machine) loadForeign(b backend) {
	m.t.Helper()
	for _, f := range model.Families {
		m.loadIPTables(b, f, read(m.t, "foreign", f))
	}
	m.run(readFile(m.t, "testdata/foreign.nft"), "nft", "-f", "-")
}

// loadKubeProxy loads the rules of a mode of kube-proxy that uses iptables.
func (m *machine) loadKubeProxy(b backend, mode string) {
	m.t.Helper()
	for _, f := range model.Families {
		m.loadIPTables(b, f, toInserts(read(m.t, mode, f)))
	}
}

var (
	policies = regexp.MustCompile(`(?m)^:[A-Z]+ ACCEPT .*\n`)
	hooks    = regexp.MustCompile(`(?m)^-A ([A-Z]+ )`)
)

// toInserts changes output of iptables-save to what kube-proxy writes: jumps are inserted before
// existing rules, and built-in chains are not declared.
func toInserts(text string) string {
	return hooks.ReplaceAllString(policies.ReplaceAllString(text, ""), "-I $1")
}

// listing returns all rules, with the handles of nf_tables, which change if a rule is deleted and
// added again.
func (m *machine) listing(b backend) string {
	m.t.Helper()
	all := m.run("", "nft", "-a", "list", "ruleset")
	for _, f := range model.Families {
		all += m.save(b, f)
	}
	return all
}

// save returns the output of iptables-save without its comments, which have the time.
func (m *machine) save(b backend, f model.Family) string {
	m.t.Helper()
	return comments.ReplaceAllString(m.run("", b.tool(f, "save")), "")
}

var comments = regexp.MustCompile(`(?m)^#.*\n`)

// remove removes kube-proxy from nf_tables and IPVS.
func (m *machine) remove() []string {
	m.t.Helper()
	removed, err := kubeproxy.Remove(kubeproxy.Config{NetNS: m.host.FD()})
	if err != nil {
		m.t.Error(err)
	}
	return removed
}

// read returns rules of a family. Those of IPv6 that were not recorded are translated.
func read(t *testing.T, name string, f model.Family) string {
	t.Helper()
	path := "testdata/" + name + "." + nft.FamilyName(f)
	if _, err := os.Stat(path); err != nil {
		return toIPv6(read(t, name, model.IPv4))
	}
	return readFile(t, path)
}

// nftablesMode returns kube-proxy's tables of nftables mode.
func nftablesMode(t *testing.T) string {
	t.Helper()
	text := readFile(t, "testdata/nftables.nft")
	return text + toIPv6(text)
}

// toIPv6 translates rules of IPv4: each address to one that ends with it.
func toIPv6(text string) string {
	text = strings.NewReplacer("table ip ", "table ip6 ", "ipv4_addr", "ipv6_addr", "ip saddr", "ip6 saddr", "ip daddr", "ip6 daddr",
		"dnat ip to", "dnat ip6 to", "--match-set KUBE-", "--match-set KUBE-6-").Replace(text)
	return ipv4Addresses.ReplaceAllStringFunc(text, func(s string) string {
		addr, rest, _ := strings.Cut(s[1:], ":")
		ip, bits, isRange := strings.Cut(addr, "/")
		b := netip.MustParseAddr(ip).As4()
		out := fmt.Sprintf("2001:db8:a:b:c:d:%x:%x", binary.BigEndian.Uint16(b[:2]), binary.BigEndian.Uint16(b[2:]))
		switch {
		case isRange:
			n, _ := strconv.Atoi(bits) // digits
			out += fmt.Sprint("/", 96+n)
		case rest != "":
			out = "[" + out + "]:" + rest
		}
		return s[:1] + out
	})
}

var ipv4Addresses = regexp.MustCompile(`\s\d+\.\d+\.\d+\.\d+(/\d+|:\d+)?`)

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// same compares two listings.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differ (-want +got):\n%s", what, diff)
	}
}
