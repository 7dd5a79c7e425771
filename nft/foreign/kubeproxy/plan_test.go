package kubeproxy

import (
	"slices"
	"strings"
	"testing"

	"kube-vmap/nft/attr"
)

const (
	svc = "KUBE-SVC-NPX46M4PTMTKRN6Y"
	sep = "KUBE-SEP-GDT7UD7DCGSKYHSM"
)

func TestIsKubeProxyChainByTableAndName(t *testing.T) {
	for _, tc := range []struct {
		table, names string
		want         bool
	}{
		{"nat", "KUBE-SERVICES KUBE-NODEPORTS KUBE-POSTROUTING KUBE-MARK-MASQ KUBE-PROXY-CANARY", true},
		{"nat", svc + " " + sep + " KUBE-SVL-NPX46M4PTMTKRN6Y KUBE-FW-NPX46M4PTMTKRN6Y KUBE-EXT-NPX46M4PTMTKRN6Y", true},
		{"nat", "KUBE-NODE-PORT KUBE-LOAD-BALANCER", true},
		{"filter", "KUBE-SERVICES KUBE-EXTERNAL-SERVICES KUBE-FORWARD KUBE-NODEPORTS KUBE-PROXY-FIREWALL KUBE-PROXY-CANARY", true},
		{"filter", "KUBE-NODE-PORT KUBE-SOURCE-RANGES-FIREWALL KUBE-IPVS-FILTER KUBE-IPVS-OUT-FILTER", true},
		{"mangle", "KUBE-PROXY-CANARY", true},
		// kubelet's.
		{"nat", "KUBE-KUBELET-CANARY", false},
		{"filter", "KUBE-FIREWALL KUBE-KUBELET-CANARY", false},
		{"mangle", "KUBE-KUBELET-CANARY KUBE-IPTABLES-HINT", false},
		// Other programs, and names in tables where kube-proxy has none.
		{"filter", "KUBE-NWPLCY-NPX46M4PTMTKRN6Y KUBE-ROUTER-INPUT KUBE-POD-FW-NPX46M4PTMTKRN6Y KUBE-FOO INPUT", false},
		{"nat", "KUBE-FOO KUBE-SVC- KUBE-SVC-MINE KUBE-SVC-npx46m4ptmtkrn6y KUBE-SVC-NPX46M4PTMTKRN6YX XKUBE-SVC-NPX46M4PTMTKRN6Y", false},
		{"nat", "KUBE-FORWARD KUBE-PROXY-FIREWALL PREROUTING OUTPUT", false},
		{"filter", svc + " KUBE-MARK-MASQ KUBE-POSTROUTING", false},
		{"mangle", "KUBE-SERVICES " + svc, false},
		{"raw", "KUBE-PROXY-CANARY " + svc, false},
	} {
		for name := range strings.FieldsSeq(tc.names) {
			if got := isChain(tc.table, name); got != tc.want {
				t.Errorf("%s in %s: %v, want %v", name, tc.table, got, tc.want)
			}
		}
	}
}

// nat returns a table with kube-proxy's chains, other chains, and rules written
// "PREROUTING>KUBE-SERVICES".
func nat(others, rules string) Table {
	t := Table{Name: "nat", Chains: map[string]bool{"PREROUTING": true, "OUTPUT": true, "POSTROUTING": true}}
	for name := range strings.FieldsSeq("KUBE-SERVICES KUBE-POSTROUTING KUBE-MARK-MASQ " + svc + " " + others) {
		t.Chains[name] = false
	}
	for rule := range strings.FieldsSeq(rules) {
		chain, target, _ := strings.Cut(rule, ">")
		t.Rules = append(t.Rules, Rule{Chain: chain, Target: target})
	}
	return t
}

const (
	hooks   = "PREROUTING>KUBE-SERVICES OUTPUT>KUBE-SERVICES POSTROUTING>KUBE-POSTROUTING "
	content = "KUBE-SERVICES>" + svc + " " + svc + ">KUBE-MARK-MASQ " + svc + "> KUBE-MARK-MASQ> KUBE-POSTROUTING> "
	all     = "KUBE-MARK-MASQ KUBE-POSTROUTING KUBE-SERVICES " + svc
)

func TestPlanRemovesOnlyKubeProxyChains(t *testing.T) {
	for _, tc := range []struct {
		name          string
		table         Table
		unhook        []int
		delete, empty string
		text          string
	}{
		{
			"nothing of others", nat("", hooks+content),
			[]int{0, 1, 2},
			all, "",
			"jumps (3), chains (4)",
		},
		{
			"rules of others between", nat("KUBE-FOO CNI", "PREROUTING>CNI PREROUTING> CNI> OUTPUT>KUBE-FOO KUBE-FOO>CNI "+hooks),
			[]int{5, 6, 7},
			all, "",
			"jumps (3), chains (4)",
		},
		{
			"only jumps",
			Table{Name: "nat", Chains: map[string]bool{"OUTPUT": true}, Rules: []Rule{{Chain: "OUTPUT", Target: "KUBE-SERVICES"}}},
			[]int{0},
			"", "",
			"jumps (1)",
		},
		{
			"CNI marks for masquerading", nat("CNI-SETMARK", hooks+content+"CNI-SETMARK>KUBE-MARK-MASQ"),
			[]int{0, 1, 2},
			"KUBE-POSTROUTING KUBE-SERVICES " + svc, "",
			"jumps (3), chains (3)",
		},
		{
			"another program marks in a built-in chain", nat("", hooks+content+"PREROUTING>KUBE-MARK-MASQ"),
			[]int{0, 1, 2},
			"KUBE-POSTROUTING KUBE-SERVICES " + svc, "",
			"jumps (3), chains (3)",
		},
		{
			"a chain of another program jumps to the Services", nat("MINE", hooks+content+"MINE>KUBE-SERVICES"),
			[]int{0, 1, 2},
			"KUBE-MARK-MASQ KUBE-POSTROUTING " + svc, "KUBE-SERVICES",
			"jumps (3), chains (3), content of KUBE-SERVICES, which others use",
		},
		{
			"only what other programs use",
			Table{
				Name:   "nat",
				Chains: map[string]bool{"MINE": false, "KUBE-SERVICES": false, "KUBE-MARK-MASQ": false},
				Rules:  []Rule{{"MINE", "KUBE-SERVICES", 1}, {"MINE", "KUBE-MARK-MASQ", 2}, {"KUBE-MARK-MASQ", "", 3}},
			},
			nil, "", "", "",
		},
		{"empty table", Table{Name: "nat"}, nil, "", "", ""},
	} {
		p := tc.table.Plan()
		if !slices.Equal(p.Unhook, tc.unhook) {
			t.Errorf("%s: deletes rules %v, want %v", tc.name, p.Unhook, tc.unhook)
		}
		if got := strings.Join(p.Empty, " "); got != tc.empty {
			t.Errorf("%s: empties %s, want %s", tc.name, got, tc.empty)
		}
		if got := strings.Join(p.Delete, " "); got != tc.delete {
			t.Errorf("%s: deletes %s, want %s", tc.name, got, tc.delete)
		}
		if got := p.String(); got != tc.text {
			t.Errorf("%s: printed\n%s, want\n%s", tc.name, got, tc.text)
		}
		if p.IsEmpty() != (tc.text == "") {
			t.Errorf("%s: empty plan: %v", tc.name, p.IsEmpty())
		}
	}
}

// TestLongStateIsCutAfterAWord has a state whose 128th byte is within a port, for each place.
func TestLongStateIsCutAfterAWord(t *testing.T) {
	const address = "10.96.0.1:443"
	for n := range 40 {
		state := strings.Repeat("x", 80+n) + " does not answer: default/kubernetes:https at " + address + "; more"
		_, comment, _ := strings.Cut(WriteTakeoverState(state).String(), `comment "`)
		comment, _, _ = strings.Cut(comment, `"`)
		words := strings.Fields(comment)
		if last := words[len(words)-1]; len(comment) > attr.MaxComment || last != "..." || !strings.Contains(state, words[len(words)-2]+" ") {
			t.Fatalf("%d bytes: %q", len(comment), comment)
		}
	}
}
