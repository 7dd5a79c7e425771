package nft

import (
	"strings"
	"testing"

	"kube-vmap/model"
)

func TestTablesAsTextShowForeignChanges(t *testing.T) {
	rules, _ := load(0)
	own := rules.Tables()[model.IPv4]
	chains := map[string]ChainState{
		"another":      {Hook: HookState{Type: "filter", Number: 1}, Rules: []Fingerprint{1}},
		"filter-input": {Hook: HookState{Type: "filter", Number: 2, Priority: 5}},
		"nat-output":   own.Chains["nat-output"],
		"restore":      {Rules: []Fingerprint{1}},
	}
	sets := map[string]SetState{"another": {}, "cluster-ips": own.Sets["cluster-ips"], "services": {}}
	for name, tt := range map[string]struct {
		table *Table
		want  []string
	}{
		"no table": {nil, nil},
		"table that is owned": {&Table{Owner: 9, Protected: true}, []string{
			"table ip kube-vmap { # belongs to netlink port 9}",
		}},
		"table whose owner left": {&Table{Protected: true}, []string{
			"table ip kube-vmap { # its owner is removed}",
		}},
		"table that is dormant": {&Table{Dormant: true}, []string{"table ip kube-vmap {", "\tflags dormant}"}},
		"sets": {&Table{Sets: sets}, []string{
			"table ip kube-vmap {",
			"\t# set or map another is none that kube-vmap makes",
			"",
			"\tset cluster-ips {", "\t\ttype ipv4_addr", "\t\tsize 384", "\t}",
			"",
			"\t# set or map services is none that kube-vmap makes",
			"}",
		}},
		"chains": {&Table{Chains: chains}, []string{
			"table ip kube-vmap {",
			"\tchain another {", "\t\t# type filter, hook 1, priority 0",
			"\t\t# a rule that kube-vmap does not make here with these flags", "\t}",
			"",
			"\tchain filter-input {", "\t\t# type filter, hook 2, priority 5", "\t}",
			"",
			"\tchain nat-output {",
			"\t\ttype nat hook output priority -101; policy accept;",
			"\t\tmeta mark 0x00002000 return",
			"\t\tjump dispatch",
			"\t\tip daddr . meta l4proto . th dport vmap @local-services",
			"\t\tip daddr @node-ips meta l4proto . th dport vmap @local-node-ports",
			"\t\ticmp type echo-request ip daddr @cluster-ips ip daddr != @no-ping-ips dnat to 192.0.2.1",
			"\t}",
			"",
			"\tchain restore {", "\t\t# a rule that kube-vmap does not make here with these flags", "\t}",
			"}",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var s strings.Builder
			if err := (Tables{model.IPv4: tt.table}).Render(&s, sampleConfig); err != nil {
				t.Fatal(err)
			}
			if got, want := s.String(), strings.Join(append(tt.want, ""), "\n"); got != want {
				t.Errorf("it reads\n%s\nwant\n%s", got, want)
			}
		})
	}
}
