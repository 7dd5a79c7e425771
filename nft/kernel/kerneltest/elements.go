package kerneltest

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// addElements adds elements to their set. If one is refused, it returns that, too.
func (t *table) addElements(id nft.SetID, list []nft.Element) (*nft.Element, syscall.Errno) {
	s := t.sets[id.Name()]
	if s == nil {
		return nil, unix.ENOENT
	}
	for i := range list {
		e := &list[i]
		if e.Value.Verdict == nft.VerdictGoto {
			if errno := t.checkTarget(e.Value.Chain.Name()); errno != 0 {
				return e, errno
			}
		}
		if errno := s.add(e); errno != 0 {
			return e, errno
		}
	}
	return nil, 0
}

// add adds an element. An existing one is unchanged, including its comment.
func (s *set) add(e *nft.Element) syscall.Errno {
	known, exists := s.elements[e.Key]
	switch {
	case exists && known.Value != e.Value:
		return unix.EEXIST
	case exists:
		return 0
	case s.overlaps(&e.Key):
		return unix.EEXIST
	case s.size > 0 && len(s.elements) >= int(s.size):
		return unix.ENFILE
	}
	kept := nft.Element{Key: e.Key, Value: e.Value}
	if s.id.Layout().Comments {
		kept.Comment = string(e.AppendComment(nil))
	}
	s.elements[e.Key] = kept
	return 0
}

// overlaps reports whether the key is an interval that overlaps another one.
func (s *set) overlaps(k *nft.Key) bool {
	if !s.id.Layout().Interval {
		return false
	}
	for other := range s.elements {
		if other.Prefix().Overlaps(k.Prefix()) {
			return true
		}
	}
	return false
}

// deleteElements removes elements from their set.
func (t *table) deleteElements(id nft.SetID, list []nft.Element) (*nft.Element, syscall.Errno) {
	s := t.sets[id.Name()]
	if s == nil {
		return nil, unix.ENOENT
	}
	for i := range list {
		if _, exists := s.elements[list[i].Key]; !exists {
			return &list[i], unix.ENOENT
		}
		delete(s.elements, list[i].Key)
	}
	return nil, 0
}

// Connect counts a connection, as a packet would; it does nothing if connections are not
// counted.
func (k *Kernel) Connect(asked model.Match, endpoint netip.AddrPort) {
	if s := k.tables[asked.Family].connections(asked.Family); s != nil {
		s.counted[nft.ConnectionCount{Destination: asked, Endpoint: endpoint}]++
	}
}

// Connections returns the counted connections of a family, sorted.
func (k *Kernel) Connections(f model.Family) ([]nft.ConnectionCount, error) {
	var out []nft.ConnectionCount
	if s := k.tables[f].connections(f); s != nil {
		for c, n := range s.counted {
			c.Connections = n
			out = append(out, c)
		}
	}
	return nft.SortConnections(out), nil
}

// Uncounted returns the destinations that are not counted. They do not expire.
func (k *Kernel) Uncounted(f model.Family) ([]model.Match, error) {
	s := k.tables[f].sets[nft.SetID{Family: f, Kind: nft.SetUncounted}.Name()]
	if s == nil {
		return nil, nil
	}
	return nft.Matches(f, s.list()), nil
}

// Refusals returns zeros for the frontends that retry: no endpoint of Connect refuses.
func (k *Kernel) Refusals(f model.Family) (out []nft.RefusalCount, err error) {
	if s := k.tables[f].sets[nft.SetID{Family: f, Kind: nft.SetRefusals}.Name()]; s != nil {
		for _, m := range nft.Matches(f, s.list()) {
			out = append(out, nft.RefusalCount{Match: m})
		}
	}
	return out, nil
}

// Counters returns zeros: Connect counts without a limit.
func (k *Kernel) Counters(model.Family) (totals [nft.Counters]uint64, err error) { return totals, nil }

// connections returns the set of counted connections, or nil.
func (t *table) connections(f model.Family) *set {
	return t.sets[nft.SetID{Family: f, Kind: nft.SetConnections}.Name()]
}

// addCounted adds counters. An existing one is unchanged.
func (s *set) addCounted(list []nft.ConnectionCount) syscall.Errno {
	if s == nil {
		return unix.ENOENT
	}
	for _, c := range list {
		key := c
		key.Connections = 0
		if _, exists := s.counted[key]; exists {
			continue
		}
		if len(s.counted) >= int(s.size) {
			return unix.ENFILE
		}
		s.counted[key] = c.Connections
	}
	return 0
}

func (s *set) deleteCounted(list []nft.ConnectionCount) syscall.Errno {
	if s == nil {
		return unix.ENOENT
	}
	for _, c := range list {
		c.Connections = 0
		if _, exists := s.counted[c]; !exists {
			return unix.ENOENT
		}
		delete(s.counted, c)
	}
	return 0
}
