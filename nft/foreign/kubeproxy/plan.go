package kubeproxy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/dump"
)

// A Table is the content of one table of iptables, in either backend.
type Table struct {
	// Name is nat, filter or mangle.
	Name string
	// Chains are all chains of the table. The value is true for those at a hook: the
	// built-in ones, PREROUTING and so on.
	Chains map[string]bool
	Rules  []Rule
}

// A Rule is the part of a rule that matters here.
type Rule struct {
	Chain  string // that it is in
	Target string // the chain that it jumps to, if any
	Handle uint64
}

// A Plan is what has to be done to remove kube-proxy from a table.
type Plan struct {
	// Unhook are the rules to delete, as indexes in [Table.Rules].
	Unhook []int
	// Delete are the chains to empty and delete, sorted.
	Delete []string
	// Empty are the chains that others use, which are only emptied, sorted.
	Empty []string
}

// Plan returns what to remove from the table.
//
// A chain that another program's rule jumps to cannot be deleted without that rule, which
// is not ours. It is only emptied, so it does not send packets to stale endpoints.
// KUBE-MARK-MASQ even keeps its rule, because programs that jump there want the mark.
func (t Table) Plan() Plan {
	used, filled := map[string]bool{}, map[string]bool{}
	var p Plan
	for i, r := range t.Rules {
		switch {
		case isChain(t.Name, r.Chain):
			filled[r.Chain] = true
		case t.Chains[r.Chain] && IsHooked(t.Name, r.Target):
			p.Unhook = append(p.Unhook, i)
		default:
			used[r.Target] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Chains)) {
		switch {
		case !isChain(t.Name, name):
		case !used[name]:
			p.Delete = append(p.Delete, name)
		case filled[name] && name != markChain:
			p.Empty = append(p.Empty, name)
		}
	}
	return p
}

// IsEmpty reports whether there is nothing to remove.
func (p Plan) IsEmpty() bool { return len(p.Unhook)+len(p.Delete)+len(p.Empty) == 0 }

// String counts what is removed, for a log, and names the chains that others use.
func (p Plan) String() string {
	var parts []string
	if n := len(p.Unhook); n > 0 {
		parts = append(parts, fmt.Sprintf("jumps (%d)", n))
	}
	if n := len(p.Delete); n > 0 {
		parts = append(parts, fmt.Sprintf("chains (%d)", n))
	}
	for _, name := range p.Empty {
		parts = append(parts, "content of "+name+", which others use")
	}
	return strings.Join(parts, ", ")
}

// IPTablesNames are the names of the tables of iptables in which kube-proxy has chains.
var IPTablesNames = []string{"nat", "filter", "mangle"}

// tableName is the name of the table of kube-proxy's nftables mode, in each family.
const tableName = "kube-proxy"

// markChain marks connections for masquerade. Other programs may use it: CNI's portmap
// plugin can be configured to jump to it.
const markChain = "KUBE-MARK-MASQ"

// chainNames are the fixed names of chains that kube-proxy's iptables and ipvs modes create
// in a table (pkg/proxy/iptables/proxier.go and pkg/proxy/ipvs/proxier.go of Kubernetes
// 1.36 and 1.37).
type chainNames struct {
	// hooked chains are jumped to from the built-in chains, inner ones are not.
	hooked, inner []string
}

var chains = map[string]chainNames{
	"nat": {
		hooked: []string{"KUBE-SERVICES", "KUBE-POSTROUTING"},
		inner:  []string{"KUBE-NODEPORTS", markChain, "KUBE-PROXY-CANARY", "KUBE-NODE-PORT", "KUBE-LOAD-BALANCER"},
	},
	"filter": {
		hooked: []string{
			"KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-FORWARD", "KUBE-NODEPORTS", "KUBE-PROXY-FIREWALL",
			"KUBE-NODE-PORT", "KUBE-IPVS-FILTER", "KUBE-IPVS-OUT-FILTER",
		},
		inner: []string{"KUBE-PROXY-CANARY", "KUBE-SOURCE-RANGES-FIREWALL"},
	},
	"mangle": {
		inner: []string{"KUBE-PROXY-CANARY"},
	},
}

// hashed matches the chains of single Services and endpoints in table nat, whose names end
// with a hash in base32.
var hashed = regexp.MustCompile(`^(KUBE-(?:SVC|SVL|SEP|FW|EXT)-)[A-Z2-7]{16}$`)

// isChain reports whether a chain of a table of iptables (nat, filter or mangle)
// is kube-proxy's. Chains of kubelet (KUBE-FIREWALL, KUBE-KUBELET-CANARY,
// KUBE-IPTABLES-HINT) and of other programs that begin with KUBE- are not.
func isChain(table, name string) bool {
	names := chains[table]
	return slices.Contains(names.hooked, name) || slices.Contains(names.inner, name) ||
		table == "nat" && hashed.MatchString(name)
}

// IsHooked reports whether kube-proxy jumps to a chain of a table of iptables from built-in
// chains.
func IsHooked(table, name string) bool { return slices.Contains(chains[table].hooked, name) }

// legacyTable and legacyChain are where kube-proxy's rules of Services begin. A kubelet writes
// other chains, and "kube-proxy --cleanup" removes this one, but not KUBE-PROXY-CANARY.
const legacyTable, legacyChain = "nat", "KUBE-SERVICES"

// FindLegacy returns the families in which iptables-legacy has kube-proxy's rules of Services, in
// a network namespace, as [dump.Legacy]. We can neither suspend nor remove them: the kernel
// only takes a table as a whole, whose layout depends on each match and target.
func FindLegacy(netNS int) (families []model.Family, err error) {
	tables, err := dump.Legacy(netNS, legacyTable)
	for _, f := range model.Families {
		if slices.ContainsFunc(tables, func(t dump.Table) bool { return t.Family == nft.FamilyName(f) && IsLegacy(&t) }) {
			families = append(families, f)
		}
	}
	return families, err
}

// IsLegacy reports whether a table is one of iptables-legacy with kube-proxy's rules of Services.
func IsLegacy(t *dump.Table) bool {
	return t.Legacy && t.Name == legacyTable && slices.ContainsFunc(t.Chains,
		func(c dump.Chain) bool { return c.Name == legacyChain })
}
