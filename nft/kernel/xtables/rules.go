package xtables

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/simulate"
)

// familyPrefix begins the family of these tables, which may have the same names as those of
// iptables-nft.
const familyPrefix = "legacy "

// Rules are the rules of one family. They implement [simulate.Rules], without sets. They are
// kept as the kernel has them, and decoded when they are asked for: of many Services they need
// several times as much memory then.
type Rules struct {
	base   []simulate.BaseChain
	chains map[simulate.Chain]rulesOf
}

// rulesOf are the rules of a chain in the blob of its table.
type rulesOf struct {
	ruleDecoder
	Chain
}

// A place is the priority of the chains of a table (enum nf_ip_hook_priorities).
type place struct{ priority, source int32 }

// places are the priorities of the tables. Chains of nat that translate sources have another
// one.
var places = map[string]place{
	"raw": {-300, -300}, "mangle": {-150, -150}, "nat": {-100, 100}, "filter": {0, 0}, "security": {50, 50},
}

// Read reads all tables of a family. The network namespace is given by its file descriptor;
// zero means that of the calling thread.
func Read(netNS int, f model.Family) (r *Rules, err error) {
	r = &Rules{chains: map[simulate.Chain]rulesOf{}}
	err = socket.In(netNS, func() error {
		names, err := Names(f)
		if err != nil {
			return err
		}
		for _, name := range names {
			t, err := ReadTable(f, name)
			if err != nil {
				return err
			}
			if err := r.add(t); err != nil {
				return fmt.Errorf("decode table %s of iptables-legacy: %w", name, err)
			}
		}
		return nil
	})
	return r, err
}

// TableOf returns a table as [Rules] name it.
func TableOf(f model.Family, name string) simulate.Table {
	return simulate.Table{Family: familyPrefix + nft.FamilyName(f), Name: name}
}

// add adds the chains of a table.
func (r *Rules) add(t *Table) error {
	chains, err := t.Chains()
	if err != nil {
		return err
	}
	table := TableOf(t.family, t.Name)
	d := ruleDecoder{table: t, starts: map[int]string{}}
	for _, c := range chains {
		d.starts[c.start] = c.Name
	}
	for _, c := range chains {
		name := simulate.Chain{Table: table, Name: c.Name}
		if c.Hooked {
			r.base = append(r.base, baseChain(name, c))
		}
		r.chains[name] = rulesOf{d, c}
	}
	return nil
}

// decode returns the rules of a chain.
func (r rulesOf) decode() (rules []simulate.Rule, err error) {
	for at := r.start; at < r.end; {
		e, err := r.table.entry(at)
		if err != nil {
			return nil, err
		}
		list, err := r.rule(e)
		if err != nil {
			return nil, err
		}
		rules = append(rules, simulate.Rule{Handle: uint64(len(rules) + 1), Expressions: list})
		at += len(e.bytes)
	}
	return rules, nil
}

func baseChain(name simulate.Chain, c Chain) simulate.BaseChain {
	b := simulate.BaseChain{Chain: name, Type: "filter", Hook: c.Hook, PolicyDrop: c.Drop, Priority: places[name.Table.Name].priority}
	if name.Table.Name == "nat" {
		b.Type = "nat"
		if c.Hook == simulate.HookInput || c.Hook == simulate.HookPostrouting {
			b.Priority = places["nat"].source
		}
	}
	return b
}

// BaseChains implements [simulate.Rules].
func (r *Rules) BaseChains(model.Family) ([]simulate.BaseChain, error) { return r.base, nil }

// Rules implements [simulate.Rules].
func (r *Rules) Rules(c simulate.Chain) ([]simulate.Rule, error) {
	chain, exists := r.chains[c]
	if !exists {
		return nil, fmt.Errorf("chain %s of table %s: %w", c.Name, c.Table, unix.ENOENT)
	}
	list, err := chain.decode()
	if err != nil {
		return nil, fmt.Errorf("decode chain %s of table %s: %w", c.Name, c.Table, err)
	}
	return list, nil
}

// Rules returns the rules of a chain of the table.
func (t *Table) Rules(chain string) ([]simulate.Rule, error) {
	r := &Rules{chains: map[simulate.Chain]rulesOf{}}
	if err := r.add(t); err != nil {
		return nil, fmt.Errorf("decode table %s of iptables-legacy: %w", t.Name, err)
	}
	return r.Rules(simulate.Chain{Table: TableOf(t.family, t.Name), Name: chain})
}

// Set implements [simulate.Rules].
func (r *Rules) Set(t simulate.Table, name string) (*simulate.Set, error) {
	return nil, fmt.Errorf("set %s of table %s: %w", name, t, unix.ENOENT)
}

// IsEmpty reports whether no chain has a rule, and no policy drops.
func (r *Rules) IsEmpty() bool {
	for _, b := range r.base {
		if b.PolicyDrop {
			return false
		}
	}
	for _, c := range r.chains {
		if c.start < c.end {
			return false
		}
	}
	return true
}

// With returns the rules of nf_tables and legacy ones of the same family.
func With(kernel simulate.Rules, legacy *Rules) simulate.Rules { return both{kernel, legacy} }

// both are the rules of nf_tables and legacy ones.
type both struct {
	kernel simulate.Rules
	legacy *Rules
}

// BaseChains implements [simulate.Rules]. Which of two chains with the same priority was
// registered first is not known.
func (b both) BaseChains(f model.Family) ([]simulate.BaseChain, error) {
	list, err := b.kernel.BaseChains(f)
	return append(b.legacy.base[:len(b.legacy.base):len(b.legacy.base)], list...), err
}

// Rules implements [simulate.Rules].
func (b both) Rules(c simulate.Chain) ([]simulate.Rule, error) {
	if strings.HasPrefix(c.Table.Family, familyPrefix) {
		return b.legacy.Rules(c)
	}
	return b.kernel.Rules(c)
}

// Set implements [simulate.Rules].
func (b both) Set(t simulate.Table, name string) (*simulate.Set, error) { return b.kernel.Set(t, name) }
