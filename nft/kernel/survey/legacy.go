package survey

import (
	"fmt"
	"strings"

	"github.com/google/nftables/expr"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/xtables"
)

// Legacy returns the tables of iptables-legacy that exist in the network namespace of the
// calling thread, with their chains. A kernel without that backend has none.
func Legacy() (tables []Table, err error) {
	for _, f := range model.Families {
		names, err := xtables.Names(f)
		if err != nil {
			return tables, err
		}
		for _, name := range names {
			t, err := legacyTable(f, name)
			if err != nil {
				return tables, err
			}
			tables = append(tables, t)
		}
	}
	return tables, nil
}

func legacyTable(f model.Family, name string) (Table, error) {
	t := Table{Family: nft.FamilyName(f), Name: name, Legacy: true}
	read, err := xtables.ReadTable(f, name)
	if err != nil {
		return t, err
	}
	chains, err := read.Chains()
	if err != nil {
		return t, fmt.Errorf("decode table %s of iptables-legacy: %w", name, err)
	}
	for _, c := range chains {
		chain := Chain{Name: c.Name, Drop: c.Drop}
		if c.Hooked {
			chain.Hook = strings.ToLower(c.Name)
		}
		t.Chains = append(t.Chains, chain)
	}
	return t, nil
}

// LegacyRules returns the rules of a chain of a table of [Legacy], in the network namespace of
// the calling thread. What they change in the packet mark is not in them.
func LegacyRules(t *Table, chain string) ([]Rule, error) {
	f := model.IPv4
	if t.Family == nft.FamilyName(model.IPv6) {
		f = model.IPv6
	}
	table, err := xtables.ReadTable(f, t.Name)
	if err != nil {
		return nil, err
	}
	read, err := table.Rules(chain)
	if err != nil {
		return nil, err
	}
	rules := make([]Rule, len(read))
	for i, r := range read {
		for _, e := range r.Expressions {
			if v, ok := e.(*expr.Verdict); ok {
				rules[i] = Rule{Accepts: v.Kind == expr.VerdictAccept, Chain: v.Chain}
			}
		}
	}
	return rules, nil
}
