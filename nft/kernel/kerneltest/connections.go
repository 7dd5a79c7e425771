package kerneltest

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

// Connect counts a connection, as a packet would; it does nothing if connections are not
// counted.
func (k *Kernel) Connect(asked model.Match, endpoint netip.AddrPort) {
	if s := k.connections(asked.Family); s != nil {
		s.counted[nft.ConnectionCount{Destination: asked, Endpoint: endpoint}]++
	}
}

// Connections returns the counted connections of a family, sorted.
func (k *Kernel) Connections(f model.Family) ([]nft.ConnectionCount, error) {
	var out []nft.ConnectionCount
	if s := k.connections(f); s != nil {
		for c, n := range s.counted {
			c.Connections = n
			out = append(out, c)
		}
	}
	return nft.SortConnections(out), nil
}

// Uncounted returns the destinations that are not counted. None expires.
func (k *Kernel) Uncounted(f model.Family) ([]model.Match, error) {
	id := nft.SetID{Family: f, Kind: nft.SetUncounted}
	if k.tables[f] == nil || k.tables[f].sets[id.Name()] == nil {
		return nil, nil
	}
	return nft.UncountedMatches(f, k.tables[f].sets[id.Name()].list(id)), nil
}

// Counters returns zeros: Connect counts without a limit.
func (k *Kernel) Counters(model.Family) (totals [nft.Counters]uint64, err error) { return totals, nil }

// connections returns the set of a family; nil if there is none.
func (k *Kernel) connections(f model.Family) *set {
	if k.tables[f] == nil {
		return nil
	}
	return k.tables[f].sets[nft.SetID{Family: f, Kind: nft.SetConnections}.Name()]
}

func isConnections(m message, name string) bool {
	id, _ := nft.SetNamed(m.family, name)
	return id == nft.SetID{Family: m.family, Kind: nft.SetConnections}
}

// counted decodes the counted connections of a message, one for each attribute of its list.
func counted(m message) []nft.ConnectionCount {
	list, err := wire.DecodeConnections(m.family, nil, m.data)
	if err != nil {
		panic("kerneltest: counted connections that cannot be decoded: " + err.Error())
	}
	return list
}

// addCounted adds counters. An existing one is unchanged.
func (s *set) addCounted(m message, list attributes) *refusal {
	for i, c := range counted(m) {
		key := c
		key.Connections = 0
		if _, exists := s.counted[key]; exists {
			continue
		}
		if len(s.counted) >= int(s.shape.Size) {
			return &refusal{unix.ENFILE, list[i].offset}
		}
		s.counted[key] = c.Connections
	}
	return nil
}

func (s *set) deleteCounted(m message, list attributes) *refusal {
	for i, c := range counted(m) {
		c.Connections = 0
		if _, exists := s.counted[c]; !exists {
			return &refusal{unix.ENOENT, list[i].offset}
		}
		delete(s.counted, c)
	}
	return nil
}
