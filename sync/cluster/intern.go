package cluster

import "kube-vmap/model"

// interner holds one copy of each string that it is given. Every endpoint of
// every slice names its node, and decoding makes a copy of that each time, which
// would be a good part of what the proxy keeps.
type interner map[string]string

// maxInterned is how many names an interner holds. Then it forgets them all: what is
// still in use lives on where it is used, and names of nodes that went away do not
// pile up.
const maxInterned = 1 << 14

// intern returns the copy of s.
func (n interner) intern(s string) string {
	if s == "" {
		return ""
	}
	if known, ok := n[s]; ok {
		return known
	}
	if len(n) >= maxInterned {
		clear(n)
	}
	n[s] = s
	return s
}

// internSlice replaces the names in a slice that others have, too.
func (n interner) internSlice(s *model.EndpointSlice) {
	s.Service.Namespace = s.Name.Namespace
	for i := range s.Ports {
		s.Ports[i].Name = n.intern(s.Ports[i].Name)
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		e.Node = n.intern(e.Node)
		e.ZoneHints = model.NameSet(n.intern(string(e.ZoneHints)))
		e.NodeHints = model.NameSet(n.intern(string(e.NodeHints)))
	}
}
