package kubeproxy

import (
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/dump"
)

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
