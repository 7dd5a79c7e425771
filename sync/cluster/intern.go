package cluster

import "kube-vmap/model"

// An interner keeps one copy of each string. Every endpoint names its node, and decoding copies the
// name each time, which would be a large part of the proxy's memory. Package unique does not help:
// it forgets a string as soon as no Handle of it is left, and the model keeps strings, not Handles.
type interner map[string]string

// maxInterned is how many strings an interner holds before it forgets them all, so
// that names of deleted nodes do not pile up. Strings in use stay shared.
const maxInterned = 1 << 14

// intern returns the interner's copy of s.
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

// internSlice interns the strings of a slice that other slices have as well.
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
