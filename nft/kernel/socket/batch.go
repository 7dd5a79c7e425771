package socket

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// A Batch is one transaction of nf_tables: all of it is applied, or nothing.
type Batch struct {
	// Generation, if not zero, is the generation of nf_tables that the batch is based on.
	// If nf_tables was changed since, the kernel refuses the batch with ERESTART.
	Generation uint32
	// Messages are what the batch does, in order.
	Messages []netlink.Message
}

// Add appends a message.
func (b *Batch) Add(kind uint16, flags netlink.HeaderFlags, family uint8, attributes func(*attr.Encoder)) {
	b.Messages = append(b.Messages, Nftables(kind, flags, family, attributes))
}

// Commit sends the batch and waits for the replies. It returns the first error, except
// for messages that tolerate, given the index in Messages, accepts; tolerate may be nil.
// If the kernel refused any message, tolerated or not, nothing was applied. After an
// error the socket may hold more replies and must not be used again.
func (b *Batch) Commit(conn *netlink.Conn, tolerate func(index int, err error) bool) error {
	if len(b.Messages) == 0 {
		return nil
	}
	sent, err := conn.SendMessages(b.withBorders())
	if err != nil {
		return fmt.Errorf("send a batch: %w", err)
	}
	first, last := sent[1].Header.Sequence, sent[len(sent)-2].Header.Sequence
	for {
		answers, err := conn.Receive()
		if err == nil {
			if len(answers) > 0 && answers[len(answers)-1].Header.Sequence == last {
				return nil
			}
			continue
		}
		var refusal *netlink.OpError
		if !errors.As(err, &refusal) || refusal.Sequence == 0 {
			return fmt.Errorf("read the answer to a batch: %w", err)
		}
		if tolerate == nil || !tolerate(int(int32(refusal.Sequence-first)), err) {
			return err
		}
		if refusal.Sequence == last {
			return nil
		}
	}
}

// withBorders returns the messages between those that begin and end a batch. The last one
// is acknowledged, to get a reply in any case.
func (b *Batch) withBorders() []netlink.Message {
	begin := border(unix.NFNL_MSG_BATCH_BEGIN)
	if b.Generation != 0 {
		e := attr.Encoder{Bytes: begin.Data}
		e.Uint32(unix.NFNL_BATCH_GENID, b.Generation)
		begin.Data = e.Bytes
	}
	out := append([]netlink.Message{begin}, b.Messages...)
	out[len(out)-1].Header.Flags |= netlink.Acknowledge
	return append(out, border(unix.NFNL_MSG_BATCH_END))
}

// border returns a message that begins or ends a batch. Its header names the subsystem in
// network byte order.
func border(kind netlink.HeaderType) netlink.Message {
	m := Request(0, 0, 0, unix.AF_UNSPEC, nil)
	m.Header.Type = kind
	binary.BigEndian.PutUint16(m.Data[2:], unix.NFNL_SUBSYS_NFTABLES)
	return m
}

// AddChain appends a chain of type filter at a hook, or one that is only jumped to, if hook is nil.
func (b *Batch) AddChain(family uint8, table, name string, hook *Hook) {
	b.Add(unix.NFT_MSG_NEWCHAIN, netlink.Create, family, func(e *attr.Encoder) {
		e.String(unix.NFTA_CHAIN_TABLE, table)
		e.String(unix.NFTA_CHAIN_NAME, name)
		if hook != nil {
			e.String(unix.NFTA_CHAIN_TYPE, "filter")
			e.Nested(unix.NFTA_CHAIN_HOOK, func() {
				e.Uint32(unix.NFTA_HOOK_HOOKNUM, hook.Number)
				e.Uint32(unix.NFTA_HOOK_PRIORITY, uint32(hook.Priority))
			})
		}
	})
}

// A Hook is where a chain is called (NF_INET_*).
type Hook struct {
	Number   uint32
	Priority int32
}

// AddRule appends a rule at the end of its chain; see [EncodeRule].
func (b *Batch) AddRule(family uint8, table, chain string, list ...expr.Any) {
	b.Add(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append, family, func(e *attr.Encoder) {
		EncodeRule(e, family, table, chain, "", list...)
	})
}

// EncodeRule appends the attributes of a rule, with a comment unless that is empty. It panics if an
// expression cannot be encoded.
func EncodeRule(e *attr.Encoder, family uint8, table, chain, comment string, list ...expr.Any) {
	e.String(unix.NFTA_RULE_TABLE, table)
	e.String(unix.NFTA_RULE_CHAIN, chain)
	e.Nested(unix.NFTA_RULE_EXPRESSIONS, func() {
		for _, x := range list {
			b, err := expr.Marshal(family, x)
			if err != nil {
				panic("socket: " + err.Error())
			}
			e.Data(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, b)
		}
	})
	if comment != "" {
		e.Comment(unix.NFTA_RULE_USERDATA, comment)
	}
}

// Compare returns expressions that load something into register 1, and compare its masked part, or
// all of it if the mask is nil.
func Compare(load expr.Any, mask []byte, op expr.CmpOp, data []byte) []expr.Any {
	const r = unix.NFT_REG_1
	out := []expr.Any{load}
	if mask != nil {
		out = append(out, &expr.Bitwise{
			SourceRegister: r, DestRegister: r, Len: uint32(len(mask)), Mask: mask, Xor: make([]byte, len(mask)),
		})
	}
	return append(out, &expr.Cmp{Op: op, Register: r, Data: data})
}
