package dump

import "slices"

// Constants keeps the elements of sets that belong to a rule and never change, from one
// [Reader] to the next. To read a set again costs the kernel a search through all sets of the
// table, and kube-proxy has one for each Service. The elements are kept as the kernel sent them,
// which takes a third of the memory of decoded ones.
type Constants struct{ sets map[constant][]byte }

// A constant identifies a set for as long as the kernel runs: no handle of a table is used
// again, and none of a set in the same table.
type constant struct{ table, set uint64 }

// NewConstants returns an empty store.
func NewConstants() *Constants { return &Constants{sets: map[constant][]byte{}} }

// setConstant is NFT_SET_CONSTANT.
const setConstant = 0x2

// isConstant reports whether the elements of the set never change: the kernel refuses that once
// a rule uses it (nf_tables_newsetelem, EBUSY).
func (s *set) isConstant() bool {
	return s.Anonymous && s.flags&setConstant != 0 && s.handle != 0
}

// elements returns the list of the elements of a set, as the kernel sends it.
func (t *TableRules) elements(s *set) ([]byte, error) {
	id := constant{t.handle, s.handle}
	keep := t.reader.constants != nil && s.isConstant() && t.handle != 0
	if keep {
		if list, known := t.reader.constants.sets[id]; known {
			return list, nil
		}
	}
	list, err := t.readElements(s)
	if err == nil && keep {
		t.reader.constants.sets[id] = slices.Clip(list)
	}
	return list, err
}

// prune drops the sets of a table that are gone.
func (c *Constants) prune(table uint64, exists map[uint64]bool) {
	for id := range c.sets {
		if id.table == table && !exists[id.set] {
			delete(c.sets, id)
		}
	}
}
