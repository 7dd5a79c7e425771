package cluster

import "kube-vmap/model"

// interner holds one copy of each string that it is given. Every endpoint of
// every slice names its node, and decoding makes a copy of that each time, which
// would be a good part of what the proxy keeps.
type interner map[string]string

// mostNames is how many names an interner holds. Then it forgets them all: what is
// still in use lives on where it is used, and names of nodes that went away do not
// pile up.
const mostNames = 1 << 14

// one returns the copy of s.
func (n interner) one(s string) string {
	if s == "" {
		return ""
	}
	if known, ok := n[s]; ok {
		return known
	}
	if len(n) >= mostNames {
		clear(n)
	}
	n[s] = s
	return s
}

// slice replaces the names in a slice that others have, too.
func (n interner) slice(s *model.Slice) {
	s.Service.Namespace = s.Name.Namespace
	for i := range s.Ports {
		s.Ports[i].Name = n.one(s.Ports[i].Name)
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		e.Node = n.one(e.Node)
		e.ZoneHints = model.NameSet(n.one(string(e.ZoneHints)))
		e.NodeHints = model.NameSet(n.one(string(e.NodeHints)))
	}
}
