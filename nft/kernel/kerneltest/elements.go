package kerneltest

import (
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

// newElements adds the elements of a message to their set.
func (t *transaction) newElements(table *table, m message, a attributes) *refusal {
	list := a.get(unix.NFTA_SET_ELEM_LIST_ELEMENTS).nested()
	if number := a.get(unix.NFTA_SET_ELEM_LIST_SET_ID).number(); number != 0 {
		for _, x := range list {
			target := x.nested().get(unix.NFTA_SET_ELEM_DATA).target()
			if target.value == nil { // a set
				continue
			}
			chain := target.text()
			if errno := table.checkTarget(chain); errno != 0 {
				return &refusal{errno, x.offset}
			}
			t.anonymous[number] = append(t.anonymous[number], chain)
		}
		return nil
	}
	name := a.get(unix.NFTA_SET_ELEM_LIST_SET)
	s := table.sets[name.text()]
	if s == nil {
		return &refusal{unix.ENOENT, name.offset}
	}
	if isConnections(m, name.text()) {
		return s.addCounted(m, list)
	}
	for i, e := range elements(m, name.text()) {
		chain := list[i].nested().get(unix.NFTA_SET_ELEM_DATA).target()
		if chain.value != nil {
			if errno := table.checkTarget(chain.text()); errno != 0 {
				return &refusal{errno, list[i].offset}
			}
		}
		if errno := s.add(element{e, chain.text()}); errno != 0 {
			return &refusal{errno, list[i].offset}
		}
	}
	return nil
}

// elements decodes the elements of a message, one for each attribute of its list.
func elements(m message, set string) []nft.Element {
	id, known := nft.SetNamed(m.family, set)
	if !known {
		panic("kerneltest: elements of an unknown set: " + set)
	}
	list, err := wire.DecodeElements(id, nil, m.data)
	if err != nil {
		panic("kerneltest: elements that cannot be decoded: " + err.Error())
	}
	return list
}

// add adds an element. An existing one is unchanged, including its comment.
func (s *set) add(e element) syscall.Errno {
	known, exists := s.elements[e.Key]
	switch {
	case exists && known.Value != e.Value:
		return unix.EEXIST
	case exists:
		return 0
	case s.shape.Flags&unix.NFT_SET_INTERVAL != 0:
		return s.addBound(e)
	case s.shape.Size > 0 && len(s.elements) >= int(s.shape.Size):
		return unix.ENFILE
	}
	s.elements[e.Key] = e
	return 0
}

// addBound adds the beginning or the end of an interval. Beginnings and ends must
// alternate, or intervals overlap.
func (s *set) addBound(e element) syscall.Errno {
	s.elements[e.Key] = e
	keys := s.sorted()
	i := slices.Index(keys, e.Key)
	ends := func(k nft.Key) bool { return k.Bits == 0 }
	before := i == 0 || ends(keys[i-1])
	if ends(e.Key) {
		before = i > 0 && !ends(keys[i-1]) && (i+1 == len(keys) || !ends(keys[i+1]))
	}
	if !before {
		return unix.EEXIST
	}
	return 0
}

// deleteElements removes the elements of a message from their set.
func (t *table) deleteElements(m message, a attributes) *refusal {
	name := a.get(unix.NFTA_SET_ELEM_LIST_SET)
	s := t.sets[name.text()]
	if s == nil {
		return &refusal{unix.ENOENT, name.offset}
	}
	list := a.get(unix.NFTA_SET_ELEM_LIST_ELEMENTS).nested()
	if isConnections(m, name.text()) {
		return s.deleteCounted(m, list)
	}
	for i, e := range elements(m, name.text()) {
		key := e.Key
		if _, exists := s.elements[key]; !exists {
			return &refusal{unix.ENOENT, list[i].offset}
		}
		delete(s.elements, key)
	}
	return nil
}
