package xtables

import (
	"encoding/binary"

	"kube-vmap/nft/simulate"
)

// A Chain is a chain of a table.
type Chain struct {
	Name string
	// Hooked is true for a chain at a hook, which drops what no rule decides if Drop is true.
	Hooked, Drop bool
	Hook         simulate.Hook

	// start is the offset of the first rule; end is that of the policy of a chain at a hook,
	// or that after the last rule.
	start, end int
}

// hookNames are the names of the chains at hooks, by NF_INET_*.
var hookNames = [hookCount]string{"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"}

// Verdicts of the standard target, whose name is empty: -NF_DROP - 1 and so on. Others that
// are not negative are offsets of a jump.
const (
	verdictDrop   = -1
	verdictAccept = -2
	verdictReturn = -5 // XT_RETURN
)

// verdict returns the verdict of the standard target.
func (e entry) verdict() (int, bool) {
	if e.target.name != "" || len(e.target.data) < 4 {
		return 0, false
	}
	return int(int32(binary.NativeEndian.Uint32(e.target.data))), true
}

// Chains returns the chains of the table: first those at a hook, then the others.
func (t *Table) Chains() ([]Chain, error) {
	var chains []Chain
	for h := range hookCount {
		if t.number(validHooksOffset)&(1<<h) == 0 {
			continue
		}
		c := Chain{
			Name: hookNames[h], Hooked: true, Hook: simulate.Hook(h),
			start: t.number(hookEntryOffset + 4*h), end: t.number(underflowOffset + 4*h),
		}
		policy, err := t.entry(c.end)
		if err != nil {
			return nil, err
		}
		v, _ := policy.verdict()
		c.Drop = v == verdictDrop
		chains = append(chains, c)
	}
	var open *Chain
	for at := 0; at < len(t.entries); {
		e, err := t.entry(at)
		if err != nil {
			return nil, err
		}
		if e.target.name == errorTarget {
			if open != nil {
				open.end = at
				chains = append(chains, *open)
			}
			open = &Chain{Name: text(e.target.data), start: at + len(e.bytes)}
		}
		at += len(e.bytes)
	}
	return chains, nil
}
