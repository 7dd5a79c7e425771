package kubeproxy

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// A batch is the transaction that removes what is left of a family.
type batch struct {
	socket.Batch
	// chains are the chains that messages delete, by the index of the message.
	chains map[int]chain
}

type chain struct{ table, name string }

// newBatch returns the batch of a family. It is valid for the generation at which the state
// was read.
func newBatch(f model.Family, s *state, plans []Plan) *batch {
	b := &batch{chains: map[int]chain{}}
	b.Generation = s.generation
	if s.hasTable {
		b.Add(unix.NFT_MSG_DELTABLE, 0, nft.FamilyNumber(f), func(e *attr.Encoder) {
			e.String(unix.NFTA_TABLE_NAME, tableName)
		})
	}
	if s.addMarker {
		b.Add(unix.NFT_MSG_NEWTABLE, netlink.Create, nft.FamilyNumber(f), markerTable)
		b.Add(unix.NFT_MSG_NEWCHAIN, netlink.Create, nft.FamilyNumber(f), markerChainOf)
	}
	for i, t := range s.tables {
		b.addPlan(nft.FamilyNumber(f), t, plans[i])
	}
	return b
}

// addPlan deletes jumps before the chains that they lead to.
func (b *batch) addPlan(family uint8, t *Table, p Plan) {
	for _, i := range p.Unhook {
		b.Add(unix.NFT_MSG_DELRULE, 0, family, func(e *attr.Encoder) {
			e.String(unix.NFTA_RULE_TABLE, t.Name)
			e.String(unix.NFTA_RULE_CHAIN, t.Rules[i].Chain)
			e.Uint64(unix.NFTA_RULE_HANDLE, t.Rules[i].Handle)
		})
	}
	for _, name := range p.Empty {
		b.Add(unix.NFT_MSG_DELRULE, 0, family, func(e *attr.Encoder) {
			e.String(unix.NFTA_RULE_TABLE, t.Name)
			e.String(unix.NFTA_RULE_CHAIN, name)
		})
	}
	for _, name := range p.Delete {
		b.chains[len(b.Messages)] = chain{t.Name, name}
		b.Add(unix.NFT_MSG_DELCHAIN, 0, family, func(e *attr.Encoder) {
			e.String(unix.NFTA_CHAIN_TABLE, t.Name)
			e.String(unix.NFTA_CHAIN_NAME, name)
		})
	}
}

// commit commits the batch. If the kernel refused it only because chains are still in use,
// commit returns these chains. With chains or an error, nothing was removed.
func (b *batch) commit(conn *netlink.Conn) (busy []chain, err error) {
	err = b.Commit(conn, func(i int, err error) bool {
		c, deletes := b.chains[i]
		if !deletes || !errors.Is(err, unix.EBUSY) {
			return false
		}
		busy = append(busy, c)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("commit the removal: %w", err)
	}
	return busy, nil
}
