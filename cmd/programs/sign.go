package programs

import (
	"fmt"
	"strconv"
	"strings"
)

// A sign is something that a component leaves on a node: a kind, and a name or the start of
// one, such as "chain nat/CNI-*".
//
//	table                   of nf_tables; its name may begin with its family and a slash
//	chain                   of nf_tables or iptables-legacy; with its table and a slash
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

func signs(of string) (names []string) {
	for _, c := range All() {
		for _, s := range c.Signs {
			if kind, name := s.split(); kind == of {
				names = append(names, name)
			}
		}
	}
	return names
}

// A trace is something on a node that a sign may match.
type trace struct{ name, group, text string }

// matches reports whether a name in a sign is the trace's, or the start of it if it ends
// with an asterisk; with a group, it must be the trace's.
func (t *trace) matches(name string) bool {
	if group, rest, ok := strings.Cut(name, "/"); ok && t.group != "" {
		if name = rest; group != t.group {
			return false
		}
	}
	start, isStart := strings.CutSuffix(name, "*")
	return t.name == name || isStart && strings.HasPrefix(t.name, start)
}

const maxNamed = 2

// evidence returns what was found of the sign; empty if nothing was.
func (s sign) evidence(n *Node) string {
	kind, name := s.split()
	text, found := "", 0
	n.traces(kind, func(t trace) {
		if !t.matches(name) {
			return
		}
		if found++; found <= maxNamed {
			text += ", " + t.name + t.text
		}
	})
	if more := found - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if found == 0 {
		return ""
	}
	return kind[strings.LastIndex(kind, "-")+1:] + strings.Replace(text, ",", "", 1)
}

func (n *Node) traces(kind string, see func(trace)) {
	switch kind {
	case "table", "chain", "nft-chain", "legacy-chain":
		n.tableTraces(kind, see)
	case "process", "pod-process":
		for _, p := range n.Processes {
			if kind == "pod-process" || !p.Elsewhere {
				see(trace{name: p.Name, text: fmt.Sprintf(" (%d)", p.PID)})
			}
		}
	case "port":
		for _, p := range n.Ports {
			see(trace{name: strconv.Itoa(int(p)), text: " in use"})
		}
	}
	for _, t := range n.left[kind] {
		see(t)
	}
}

// tableTraces calls see for tables, or for the chains of the tables of a kind.
func (n *Node) tableTraces(kind string, see func(trace)) {
	for i := range n.Tables {
		t := &n.Tables[i]
		switch {
		case kind == "table" && !t.Legacy:
			see(trace{t.Name, t.Family, " (" + t.Family + ")"})
		case kind == "chain", kind == "nft-chain" && !t.Legacy, kind == "legacy-chain" && t.Legacy:
			where := " in " + t.String()
			for k := range t.Chains {
				see(trace{t.Chains[k].Name, t.Name, where})
			}
		}
	}
}
