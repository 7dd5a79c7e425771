package components

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kube-vmap/nft/kernel/dump"
)

// A sign is something that a component leaves on a node.
type sign struct {
	kind signKind
	// name is a whole name, or the start of one if it ends with an asterisk. That of a chain
	// may begin with the name of its table and a slash.
	name string
}

type signKind int

const (
	tableSign      signKind = iota // of nf_tables, in any family unless the name begins with one
	chainSign                      // of nf_tables or iptables-legacy
	nftSign                        // a chain of nf_tables, also where iptables-nft writes
	legacySign                     // a chain of iptables-legacy
	linkSign                       // a network interface
	processSign                    // a process, by the first 15 bytes of its command's name
	podProcessSign                 // one in the network namespace of a pod
	portSign                       // a TCP port on which another process listens
	pluginSign                     // a type in the CNI configuration
	fileSign                       // a file or directory
)

func table(name string) sign        { return sign{tableSign, name} }
func chain(name string) sign        { return sign{chainSign, name} }
func nftChain(name string) sign     { return sign{nftSign, name} }
func legacy(name string) sign       { return sign{legacySign, name} }
func link(name string) sign         { return sign{linkSign, name} }
func process(name string) sign      { return sign{processSign, name} }
func podProcess(name string) sign   { return sign{podProcessSign, name} }
func port(number uint16) sign       { return sign{portSign, strconv.Itoa(int(number))} }
func plugin(pluginType string) sign { return sign{pluginSign, pluginType} }
func file(path string) sign         { return sign{fileSign, path} }

// evidence returns what was found of the sign; empty if nothing was.
func (s sign) evidence(n *Node) string {
	switch s.kind {
	case tableSign:
		return s.tables(n)
	case chainSign, nftSign, legacySign:
		return s.chains(n)
	case linkSign:
		return count("interface", s.name, matching(s.name, slices.Values(n.Interfaces)))
	case processSign, podProcessSign:
		return s.processes(n)
	case portSign:
		if slices.ContainsFunc(n.Ports, func(p uint16) bool { return strconv.Itoa(int(p)) == s.name }) {
			return "TCP port " + s.name + " in use"
		}
	case pluginSign:
		for _, p := range n.Plugins {
			if matches(s.name, p.Type) {
				return fmt.Sprintf("CNI plugin %s in %s", p.Type, p.File)
			}
		}
	case fileSign:
		if slices.Contains(n.Files, s.name) {
			return s.name + " exists"
		}
	}
	return ""
}

func (s sign) tables(n *Node) string {
	var names []string
	for i := range n.Tables {
		t := &n.Tables[i]
		if !t.Legacy && (matches(s.name, t.Name) || matches(s.name, t.String())) {
			names = append(names, t.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "table " + strings.Join(names, ", ")
}

func (s sign) chains(n *Node) string {
	in, name, inTable := strings.Cut(s.name, "/")
	if !inTable {
		name = in
	}
	var found []string
	var tables []string
	for i := range n.Tables {
		t := &n.Tables[i]
		if s.kind == legacySign && !t.Legacy || s.kind == nftSign && t.Legacy || inTable && t.Name != in {
			continue
		}
		before := len(found)
		found = append(found, matching(name, chainNames(t))...)
		if len(found) > before {
			tables = append(tables, t.String())
		}
	}
	if len(found) == 0 {
		return ""
	}
	return count("chain", name, found) + " in " + strings.Join(tables, ", ")
}

func chainNames(t *dump.Table) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range t.Chains {
			if !yield(t.Chains[i].Name) {
				return
			}
		}
	}
}

func (s sign) processes(n *Node) string {
	var pids []string
	for _, p := range n.Processes {
		if matches(s.name, p.Name) && (!p.Elsewhere || s.kind == podProcessSign) {
			pids = append(pids, strconv.Itoa(p.PID))
		}
	}
	switch len(pids) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("process %s (%s)", s.name, pids[0])
	}
	return fmt.Sprintf("processes %s (%d)", s.name, len(pids))
}

// matches reports whether a name is the pattern, or starts with it if that ends with an
// asterisk.
func matches(pattern, name string) bool {
	if start, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, start)
	}
	return name == pattern
}

func matching(pattern string, names func(yield func(string) bool)) (found []string) {
	for name := range names {
		if matches(pattern, name) {
			found = append(found, name)
		}
	}
	return found
}

// count names what was found: the name if it is one, else the pattern and how many.
func count(what, pattern string, found []string) string {
	switch len(found) {
	case 0:
		return ""
	case 1:
		return what + " " + found[0]
	}
	if !strings.HasSuffix(pattern, "*") {
		return what + " " + pattern
	}
	return fmt.Sprintf("%ss %s (%d)", what, pattern, len(found))
}
