package kubeproxy

import (
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// newBatch returns the transaction that removes what is left of a family. It is valid for the
// generation at which the state was read.
func newBatch(f model.Family, s *state, plans []Plan) socket.Batch {
	family := nft.FamilyNumber(f)
	b := socket.Batch{Generation: s.generation}
	if s.hasTable {
		b.Add(unix.NFT_MSG_DELTABLE, 0, family, func(e *attr.Encoder) { e.String(unix.NFTA_TABLE_NAME, tableName) })
	}
	if s.addMarker {
		b.Add(unix.NFT_MSG_NEWTABLE, netlink.Create, family, markerTable)
		b.Add(unix.NFT_MSG_NEWCHAIN, netlink.Create, family, markerChainOf)
	}
	for i, t := range s.tables {
		addPlan(&b, family, t, plans[i])
	}
	return b
}

// addPlan deletes jumps before the chains that they lead to.
func addPlan(b *socket.Batch, family uint8, t *Table, p Plan) {
	for _, i := range p.Unhook {
		b.Add(unix.NFT_MSG_DELRULE, 0, family, func(e *attr.Encoder) {
			encodeRuleRef(e, t.Name, t.Rules[i].Chain, t.Rules[i].Handle)
		})
	}
	for _, name := range p.Empty {
		b.Add(unix.NFT_MSG_DELRULE, 0, family, func(e *attr.Encoder) { encodeRuleRef(e, t.Name, name, 0) })
	}
	for _, name := range p.Delete {
		b.Add(unix.NFT_MSG_DELCHAIN, 0, family, func(e *attr.Encoder) {
			e.String(unix.NFTA_CHAIN_TABLE, t.Name)
			e.String(unix.NFTA_CHAIN_NAME, name)
		})
	}
}

// encodeRuleRef appends what names a rule; without a handle, all rules of the chain.
func encodeRuleRef(e *attr.Encoder, table, chain string, handle uint64) {
	e.String(unix.NFTA_RULE_TABLE, table)
	e.String(unix.NFTA_RULE_CHAIN, chain)
	if handle != 0 {
		e.Uint64(unix.NFTA_RULE_HANDLE, handle)
	}
}
