package kubeproxy

import (
	"regexp"
	"slices"
)

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

// IsChain reports whether a chain of a table of iptables (nat, filter or mangle)
// is kube-proxy's. Chains of kubelet (KUBE-FIREWALL, KUBE-KUBELET-CANARY,
// KUBE-IPTABLES-HINT) and of other programs that begin with KUBE- are not.
func IsChain(table, name string) bool {
	names := chains[table]
	return slices.Contains(names.hooked, name) || slices.Contains(names.inner, name) ||
		table == "nat" && hashed.MatchString(name)
}

// IsHooked reports whether kube-proxy jumps to a chain of a table of iptables from built-in
// chains.
func IsHooked(table, name string) bool { return slices.Contains(chains[table].hooked, name) }
