package components

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A sign is something that a component leaves on a node: a kind, and a name or the start of
// one, such as "chain nat/CNI-*".
//
//	table                   of nf_tables, in any family unless the name begins with one
//	chain                   of nf_tables or iptables-legacy
//	nft-chain               of nf_tables, where iptables-nft writes, too
//	legacy-chain            of iptables-legacy
//	interface               of the network
//	process, pod-process    by the first 15 bytes of its command's name; the latter in any pod
//	port                    of TCP, on which another process listens
//	plugin                  a type in the CNI configuration
//	file                    or directory
type sign string

func (s sign) split() (kind, name string) {
	kind, name, _ = strings.Cut(string(s), " ")
	return kind, name
}

// names returns the names in all signs of a kind.
func names(of string) (found []string) {
	for _, c := range All() {
		for _, s := range c.Signs {
			if kind, name := s.split(); kind == of {
				found = append(found, name)
			}
		}
	}
	return found
}

// evidence returns what was found of the sign; empty if nothing was.
func (s sign) evidence(n *Node) string {
	kind, name := s.split()
	var found []string
	switch kind {
	case "table":
		for i := range n.Tables {
			if t := &n.Tables[i]; !t.Legacy && (matches(name, t.Name) || matches(name, t.String())) {
				found = append(found, t.String())
			}
		}
		if len(found) > 0 {
			return "table " + strings.Join(found, ", ")
		}
	case "chain", "nft-chain", "legacy-chain":
		return chains(n, name, kind != "nft-chain", kind != "legacy-chain")
	case "interface":
		return count(kind, name, n.Interfaces)
	case "process", "pod-process":
		for _, p := range n.Processes {
			if p.Name == name && (!p.Elsewhere || kind == "pod-process") {
				found = append(found, strconv.Itoa(p.PID))
			}
		}
		if len(found) > 1 {
			return fmt.Sprintf("processes %s (%d)", name, len(found))
		} else if len(found) == 1 {
			return fmt.Sprintf("process %s (%s)", name, found[0])
		}
	case "port":
		if slices.ContainsFunc(n.Ports, func(p uint16) bool { return strconv.Itoa(int(p)) == name }) {
			return "TCP port " + name + " in use"
		}
	case "plugin":
		for _, p := range n.Plugins {
			if matches(name, p.Type) {
				return fmt.Sprintf("CNI plugin %s in %s", p.Type, p.File)
			}
		}
	case "file":
		if slices.Contains(n.Files, name) {
			return name + " exists"
		}
	}
	return ""
}

// chains returns which chains have a name, in which tables.
func chains(n *Node, name string, legacy, nft bool) string {
	table, chain, inTable := strings.Cut(name, "/")
	if !inTable {
		chain = name
	}
	var found, tables []string
	for i := range n.Tables {
		t := &n.Tables[i]
		if t.Legacy && !legacy || !t.Legacy && !nft || inTable && t.Name != table {
			continue
		}
		before := len(found)
		for _, c := range t.Chains {
			if matches(chain, c.Name) {
				found = append(found, c.Name)
			}
		}
		if len(found) > before {
			tables = append(tables, t.String())
		}
	}
	if len(found) == 0 {
		return ""
	}
	return count("chain", chain, found) + " in " + strings.Join(tables, ", ")
}

// matches reports whether a name is the pattern, or starts with it if that ends with an
// asterisk.
func matches(pattern, name string) bool {
	start, isStart := strings.CutSuffix(pattern, "*")
	return name == pattern || isStart && strings.HasPrefix(name, start)
}

// count names what matches a pattern: the name if it is one, else the pattern and how many.
func count(what, pattern string, names []string) string {
	found := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !matches(pattern, name) })
	switch {
	case len(found) == 0:
		return ""
	case len(found) == 1:
		return what + " " + found[0]
	case !strings.HasSuffix(pattern, "*"):
		return what + " " + pattern
	}
	return fmt.Sprintf("%ss %s (%d)", what, pattern, len(found))
}
