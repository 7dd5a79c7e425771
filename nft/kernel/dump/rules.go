package dump

import (
	"errors"
	"fmt"
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/simulate"
)

// maxTries is how often something is read because other programs changed it meanwhile.
const maxTries = 5

// Snapshot calls fn, which reads from r, again until nf_tables did not change meanwhile. So
// all that fn has read existed at one moment, except for what packets change.
func (r *Reader) Snapshot(fn func() error) error {
	var err error
	for range maxTries {
		before, genErr := socket.Generation(r.conn)
		if genErr != nil {
			return permission(genErr)
		}
		err = fn()
		after, genErr := socket.Generation(r.conn)
		if genErr != nil || after == before {
			return errors.Join(err, permission(genErr))
		}
	}
	return errors.Join(err, errors.New("read nf_tables: other programs change it too fast"))
}

// BaseChains implements [simulate.Rules].
func (r *Reader) BaseChains(f model.Family) (list []simulate.BaseChain, err error) {
	tables, err := r.tablesWithChains()
	for i := range tables {
		for _, c := range tables[i].Chains {
			if seesIP(c) && !tables[i].Dormant {
				list = append(list, c)
			}
		}
	}
	return chainsOf(f, list), err
}

// seesIP reports whether the chain is at a hook that IP packets pass.
func seesIP(c Chain) bool {
	return slices.Contains([]string{"ip", "ip6", "inet", "netdev"}, c.Table.Family) &&
		slices.Contains(simulate.Hooks[:], c.Hook)
}

func chainsOf(f model.Family, all []simulate.BaseChain) (out []simulate.BaseChain) {
	for _, b := range all {
		switch b.Table.Family {
		case "inet", "netdev", nft.FamilyName(f):
			out = append(out, b)
		}
	}
	return out
}

// Rules implements [simulate.Rules].
func (r *Reader) Rules(c simulate.Chain) (list []simulate.Rule, err error) {
	err = r.EachRule(c, func(rule Rule) bool {
		list = append(list, rule.Rule)
		return true
	})
	return list, err
}

// Set implements [simulate.Rules]. Elements are looked up by the kernel, except for those of a set
// of intervals, which is read whole.
func (r *Reader) Set(t simulate.Table, name string) (*simulate.Set, error) {
	s, err := r.readSet(t, name)
	if err != nil {
		return nil, fmt.Errorf("read set %s of table %s: %w", name, t, err)
	}
	s.Find = func(key []byte) (simulate.Element, bool, error) {
		found, err := r.lookup(s, key)
		switch {
		case err != nil:
			return simulate.Element{}, false, fmt.Errorf("look up a key in set %s of table %s: %w", name, t, err)
		case found == nil:
			return simulate.Element{}, false, nil
		}
		return *found, true, nil
	}
	return &s.Set, nil
}
