package leftovers

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// batch is one transaction, all or nothing.
type batch struct {
	messages []netlink.Message
	// chains are those that a message deletes, by the message's number.
	chains map[uint32]chain
}

type chain struct{ table, name string }

// newBatch writes what a family needs. The kernel takes it only if nobody wrote
// since the state was read.
func newBatch(f model.Family, s *state, plans []Plan) *batch {
	b := &batch{chains: map[uint32]chain{}}
	family := nft.FamilyNumber(f)
	b.border(unix.NFNL_MSG_BATCH_BEGIN, func(ae *netlink.AttributeEncoder) {
		ae.Uint32(unix.NFNL_BATCH_GENID, s.generation)
	})
	if s.hasTable {
		b.add(unix.NFT_MSG_DELTABLE, family, func(ae *netlink.AttributeEncoder) {
			ae.String(unix.NFTA_TABLE_NAME, tableName)
		})
	}
	for i, t := range s.tables {
		b.addPlan(family, t, plans[i])
	}
	b.messages[len(b.messages)-1].Header.Flags |= netlink.Acknowledge
	b.border(unix.NFNL_MSG_BATCH_END, nil)
	return b
}

// addPlan deletes the rules that jump before the chains they jump to.
func (b *batch) addPlan(family uint8, t *table, p Plan) {
	for _, i := range p.Unhook {
		b.add(unix.NFT_MSG_DELRULE, family, func(ae *netlink.AttributeEncoder) {
			ae.String(unix.NFTA_RULE_TABLE, t.Name)
			ae.String(unix.NFTA_RULE_CHAIN, t.Rules[i].Chain)
			ae.Uint64(unix.NFTA_RULE_HANDLE, t.handles[i])
		})
	}
	for _, name := range p.Empty {
		b.add(unix.NFT_MSG_DELRULE, family, func(ae *netlink.AttributeEncoder) {
			ae.String(unix.NFTA_RULE_TABLE, t.Name)
			ae.String(unix.NFTA_RULE_CHAIN, name)
		})
	}
	for _, name := range p.Delete {
		b.add(unix.NFT_MSG_DELCHAIN, family, func(ae *netlink.AttributeEncoder) {
			ae.String(unix.NFTA_CHAIN_TABLE, t.Name)
			ae.String(unix.NFTA_CHAIN_NAME, name)
		})
		b.chains[b.last()] = chain{t.Name, name}
	}
}

func (b *batch) add(kind uint16, family uint8, attributes func(*netlink.AttributeEncoder)) {
	b.append(request(kind, 0, family, attributes))
}

// border opens or closes the transaction. The header names the subsystem in
// network byte order.
func (b *batch) border(kind netlink.HeaderType, attributes func(*netlink.AttributeEncoder)) {
	m := request(0, 0, unix.AF_UNSPEC, attributes)
	m.Header.Type = kind
	binary.BigEndian.PutUint16(m.Data[2:], unix.NFNL_SUBSYS_NFTABLES)
	b.append(m)
}

// append numbers the message: by its number the kernel tells which one it
// refuses.
func (b *batch) append(m netlink.Message) {
	m.Header.Sequence = b.last() + 1
	b.messages = append(b.messages, m)
}

// last is the number of the latest message.
func (b *batch) last() uint32 { return uint32(len(b.messages)) }

// commit hands the transaction to the kernel. It returns the chains that are
// still in use, for which alone the kernel refused it, or another error; in both
// cases nothing was done.
func (b *batch) commit(conn *netlink.Conn) (busy []chain, err error) {
	if _, err := conn.SendMessages(b.messages); err != nil {
		return nil, fmt.Errorf("send a batch: %w", err)
	}
	end := b.last() - 1 // the last but the one that closes the transaction is acknowledged
	for {
		answers, err := conn.Receive()
		if err == nil {
			if len(answers) > 0 && answers[len(answers)-1].Header.Sequence == end {
				return busy, nil
			}
			continue
		}
		var refusal *netlink.OpError
		if !errors.As(err, &refusal) || refusal.Sequence == 0 {
			return nil, fmt.Errorf("read the answer to a batch: %w", err)
		}
		c, deletes := b.chains[refusal.Sequence]
		if !deletes || !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("remove what kube-proxy left: %w", err)
		}
		busy = append(busy, c)
		if refusal.Sequence == end {
			return busy, nil
		}
	}
}
