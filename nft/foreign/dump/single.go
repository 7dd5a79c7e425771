package dump

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/simulate"
)

// TableRules are one table of another program, read as if it were the only one, and not
// dormant. Named sets are read whole, and once, because thousands of keys will be looked up
// in them. Chains and anonymous sets are read when a packet meets them, and kept until
// [TableRules.Forget]; so the memory does not grow with the number of Services.
type TableRules struct {
	reader  *Reader
	table   simulate.Table
	Dormant bool
	base    []simulate.BaseChain
	kept    map[simulate.Chain][]simulate.Rule
	chains  map[simulate.Chain][]simulate.Rule
	shapes  map[string]*set // without elements
	named   map[string]*set
	unnamed map[string]*set
}

// Table returns a table. Rules of chains for which keep returns true are kept while the table
// is in use. Rules in them with the comment skip are skipped, as if they were deleted; then
// the table counts as dormant. The error is [fs.ErrNotExist] if there is no such table.
func (r *Reader) Table(name simulate.Table, keep func(chain string) bool, skip string) (*TableRules, error) {
	tables, err := r.Tables(name.Family)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(tables, func(t Table) bool { return t.Family == name.Family && t.Name == name.Name })
	if i < 0 {
		return nil, fmt.Errorf("table %s: %w", name, fs.ErrNotExist)
	}
	t := &TableRules{
		reader: r, table: name, Dormant: tables[i].Dormant,
		kept: map[simulate.Chain][]simulate.Rule{}, named: map[string]*set{},
	}
	t.Forget()
	chains, err := r.Chains(name)
	if err != nil {
		return nil, err
	}
	for _, b := range chains {
		hooked := seesIP(b)
		if hooked {
			t.base = append(t.base, b)
		}
		if !hooked && !keep(b.Name) {
			continue
		}
		t.kept[b.Chain] = nil
		err := r.EachRule(b.Chain, func(rule Rule) bool {
			if skip != "" && rule.Remark == skip {
				t.Dormant = true
			} else {
				t.kept[b.Chain] = append(t.kept[b.Chain], rule.Rule)
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return t, t.readShapes()
}

// readShapes reads how all sets are declared. The kernel finds a set by its name in a list
// of all sets, so that one request for each of thousands would take minutes.
func (t *TableRules) readShapes() error {
	t.shapes = map[string]*set{}
	err := t.reader.get(unix.NFT_MSG_GETSET, netlink.Dump, FamilyNumber(t.table.Family), func(e *attr.Encoder) {
		e.String(unix.NFTA_SET_TABLE, t.table.Name)
	}, func(d *attr.Decoder, m message) {
		s := &set{table: t.table}
		s.decode(d, m)
		s.Name = attr.String(d.Find(m.attributes, unix.NFTA_SET_NAME))
		t.shapes[s.Name] = s
	})
	if err != nil {
		return fmt.Errorf("list the sets of table %s: %w", t.table, err)
	}
	return nil
}

// Forget drops the chains and anonymous sets that were read.
func (t *TableRules) Forget() {
	t.chains, t.unnamed = map[simulate.Chain][]simulate.Rule{}, map[string]*set{}
}

// BaseChains implements [simulate.Rules].
func (t *TableRules) BaseChains(f model.Family) ([]simulate.BaseChain, error) {
	return chainsOf(f, t.base), nil
}

// Rules implements [simulate.Rules].
func (t *TableRules) Rules(c simulate.Chain) ([]simulate.Rule, error) {
	if list, ok := t.kept[c]; ok {
		return list, nil
	}
	if list, ok := t.chains[c]; ok {
		return list, nil
	}
	list, err := t.reader.Rules(c)
	if err == nil {
		t.chains[c] = list
	}
	return list, err
}

// Set implements [simulate.Rules].
func (t *TableRules) Set(_ simulate.Table, name string) (*simulate.Set, error) {
	for _, sets := range [...]map[string]*set{t.named, t.unnamed} {
		if s := sets[name]; s != nil {
			return &s.Set, nil
		}
	}
	s, err := t.readSet(name)
	if err != nil {
		return nil, fmt.Errorf("read set %s of table %s: %w", name, t.table, err)
	}
	if s.Anonymous || s.isDynamic() {
		t.unnamed[name] = s
	} else {
		t.named[name] = s
	}
	return &s.Set, nil
}

// readSet reads a set with its elements, except for those that packets have added.
func (t *TableRules) readSet(name string) (*set, error) {
	shape := t.shapes[name]
	if shape == nil {
		return nil, fs.ErrNotExist
	}
	fresh := *shape
	s := &fresh
	s.Find = s.findRead
	if s.isDynamic() {
		return s, nil
	}
	return s, t.reader.readElements(s)
}

// Keys returns the keys of a named set with their elements, sorted; none if there is no such
// set.
func (t *TableRules) Keys(name string, fn func(key []byte, e simulate.Element)) error {
	if _, err := t.Set(t.table, name); err != nil {
		return err
	}
	s := t.named[name]
	if s == nil {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(s.elements)) {
		fn([]byte(k), s.elements[k])
	}
	return nil
}

// findRead is [simulate.Set.Find] of a set that was read whole.
func (s *set) findRead(key []byte) (e simulate.Element, found bool, _ error) {
	if at := s.find(key); at != nil {
		return *at, true, nil
	}
	return e, false, nil
}

const timeoutUnit = time.Millisecond
