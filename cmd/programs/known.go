// Package programs finds the programs on a node that also have to do with its packets: the
// CNI plugin, policy engines, firewalls, service meshes, load balancers and other Service
// proxies. It reads signs that they leave, and changes nothing.
//
//	Read                                   Find
//	tables and chains   nft/foreign/dump   |
//	interfaces          net.Interfaces     |   known.yaml:                  [Finding]
//	processes           /proc/PID/comm     +-> a program, its signs,    --> program, mode,
//	listening ports     /proc/PID/net/tcp  |   its modes                    evidence
//	CNI configuration   /etc/cni/net.d     |
//
// known.yaml is the one table of programs: what they leave, whether kube-vmap works with them,
// whether they have to see every packet, and their rows in docs/compatibility.md. A component
// counts as there if one of its signs is. One that was uninstalled may have left signs, so a
// finding lists its evidence.
//
// Read needs no privilege to run, but sees more with it: CAP_NET_ADMIN for tables and
// chains, the host's process IDs for processes. What could not be seen is in [Node.Unseen].
package programs

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"kube-vmap/nft/foreign/dump"
)

// IDs of components that other packages ask for.
const (
	KubeProxy       = "kube-proxy"
	KubeProxyLegacy = "kube-proxy-iptables-legacy"
	Calico          = "calico"
	Bridge          = "bridge"
)

// A Verdict says whether kube-vmap works with a component.
type Verdict string

// Verdicts, the best first.
const (
	// Fine means that both work, and nothing has to be done.
	Fine Verdict = "fine"
	// Partial means that nothing has to be done, and that the component serves part of the
	// traffic to Services itself.
	Partial Verdict = "partial"
	// Needs means that a setting, of either, is needed.
	Needs Verdict = "needs"
	// Conflict means that they do not work on the same node.
	Conflict Verdict = "conflict"
)

// A Component is a program that may be on a node, or one of its modes. The head of known.yaml
// explains the fields.
type Component struct {
	ID, Name string
	Verdict  Verdict
	Advice   string
	Passive  bool
	Signs    []sign
	Modes    []Component
}

// A Finding is a component that is on the node.
type Finding struct {
	Component
	// Evidence is what was found: of the mode, of other modes, which may be left over, and of
	// the component.
	Evidence []string
}

//go:embed known.yaml
var table []byte

var known = sync.OnceValue(func() (all []Component) {
	if err := yaml.UnmarshalStrict(table, &all); err != nil {
		panic("components: known.yaml: " + err.Error())
	}
	return all
})

// All returns every component that [Find] knows, with each mode.
func All() (all []Component) {
	for _, c := range known() {
		all = append(append(all, c), c.Modes...)
	}
	return all
}

// Get returns the component, or mode, with an ID.
func Get(id string) Component {
	all := All()
	i := slices.IndexFunc(all, func(c Component) bool { return c.ID == id })
	if i < 0 {
		panic("components: no component " + strconv.Quote(id))
	}
	return all[i]
}

// Find returns the components on a node.
func Find(n *Node) (all []Finding) {
	for _, c := range known() {
		f := Finding{c, c.evidence(n)}
		for _, m := range slices.Backward(c.Modes) {
			if more := m.evidence(n); len(more) > 0 {
				f = Finding{m, append(more, f.Evidence...)}
			}
		}
		if len(f.Evidence) > 0 {
			all = append(all, f)
		}
	}
	return all
}

func (c *Component) evidence(n *Node) (found []string) {
	for _, s := range c.Signs {
		if text := s.evidence(n); text != "" && !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	return found
}

// Has reports whether a component is among the findings, in any mode.
func Has(findings []Finding, id string) bool {
	modes := Get(id).Modes
	return slices.ContainsFunc(findings, func(f Finding) bool {
		return f.ID == id || slices.ContainsFunc(modes, func(m Component) bool { return m.ID == f.ID })
	})
}

// Unrecognized returns the tables of nf_tables with chains at hooks that belong to no
// component: tables of an administrator, or of a program that is not known. The tables of
// iptables, which programs share, and kube-vmap's own are not among them.
func Unrecognized(n *Node) (tables []string) {
	for i := range n.Tables {
		t := &n.Tables[i]
		hooked := slices.ContainsFunc(t.Chains, func(c dump.Chain) bool { return c.Hook != "" })
		ofIPTables := slices.Contains([]string{"ip", "ip6", "arp", "bridge"}, t.Family) &&
			slices.Contains([]string{"filter", "nat", "mangle", "raw", "security"}, t.Name)
		left := trace{name: t.Name, group: t.Family}
		if hooked && !t.Legacy && !t.IsOurs() && !ofIPTables && !slices.ContainsFunc(signs("table"), left.matches) {
			tables = append(tables, t.String())
		}
	}
	return tables
}

// Obstacle returns why packets of established connections must not bypass the rules of a node; an
// empty text if nothing is known against it.
// Processes count only if they are known to be in the node's network namespace: every author
// of a pod chooses the names of its processes, and those have no rules on the node.
func Obstacle(n *Node) string {
	if err := n.Blind(); err != nil {
		return fmt.Sprintf("rules of other programs cannot be read: %v", err)
	}
	here := *n
	here.Processes = slices.DeleteFunc(slices.Clone(n.Processes), func(p Process) bool { return !p.Here })
	for _, f := range Find(&here) {
		if !f.Passive {
			return fmt.Sprintf("rules of %s may have to see every packet (%s)", f.Name, f.Evidence[0])
		}
	}
	if tables := Unrecognized(n); len(tables) > 0 {
		return fmt.Sprintf("rules of table %s, which is not recognized, may have to see every packet", tables[0])
	}
	return ""
}

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
