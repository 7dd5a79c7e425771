package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// batch is one transaction of nf_tables, all or nothing.
type batch struct {
	messages []netlink.Message
	err      error
}

// add appends a message about a table.
func (b *batch) add(kind uint16, flags netlink.HeaderFlags, family uint8, attributes func(*netlink.AttributeEncoder)) {
	m, err := request(kind, flags, family, attributes)
	b.err = errors.Join(b.err, err)
	b.messages = append(b.messages, m)
}

// request is a message to nf_tables.
func request(
	kind uint16, flags netlink.HeaderFlags, family uint8, attributes func(*netlink.AttributeEncoder),
) (netlink.Message, error) {
	ae := netlink.NewAttributeEncoder()
	ae.ByteOrder = binary.BigEndian
	if attributes != nil {
		attributes(ae)
	}
	data, err := ae.Encode()
	if err != nil {
		return netlink.Message{}, fmt.Errorf("encode a request to nf_tables: %w", err)
	}
	return netlink.Message{
		Header: netlink.Header{
			Type:  unix.NFNL_SUBSYS_NFTABLES<<8 | netlink.HeaderType(kind),
			Flags: netlink.Request | flags,
		},
		Data: append([]byte{family, unix.NFNETLINK_V0, 0, 0}, data...),
	}, nil
}

// Flags of tables (include/uapi/linux/netfilter/nf_tables.h).
const (
	tableOwned     = 0x2
	attrTableOwner = 7 // NFTA_TABLE_OWNER
)

// table makes the table with all that is in it.
func (b *batch) table(c *Config, name string, owned bool) {
	const create = netlink.Create
	b.add(unix.NFT_MSG_NEWTABLE, create, c.family(), func(ae *netlink.AttributeEncoder) {
		ae.String(unix.NFTA_TABLE_NAME, name)
		if owned {
			ae.Uint32(unix.NFTA_TABLE_FLAGS, tableOwned)
		}
	})
	for _, ch := range c.chains() {
		b.add(unix.NFT_MSG_NEWCHAIN, create, c.family(), func(ae *netlink.AttributeEncoder) {
			ae.String(unix.NFTA_CHAIN_TABLE, name)
			ae.String(unix.NFTA_CHAIN_NAME, ch.name)
			ae.String(unix.NFTA_CHAIN_TYPE, "filter")
			ae.Nested(unix.NFTA_CHAIN_HOOK, func(ae *netlink.AttributeEncoder) error {
				ae.Uint32(unix.NFTA_HOOK_HOOKNUM, ch.hook)
				ae.Uint32(unix.NFTA_HOOK_PRIORITY, uint32(ch.priority))
				return nil
			})
		})
		for _, r := range ch.rules {
			b.add(unix.NFT_MSG_NEWRULE, create|netlink.Append, c.family(), func(ae *netlink.AttributeEncoder) {
				ae.String(unix.NFTA_RULE_TABLE, name)
				ae.String(unix.NFTA_RULE_CHAIN, ch.name)
				ae.Nested(unix.NFTA_RULE_EXPRESSIONS, r.encode(c.family()))
				ae.Bytes(unix.NFTA_RULE_USERDATA, r.userdata())
			})
		}
	}
}

func (r rule) encode(family uint8) func(*netlink.AttributeEncoder) error {
	return func(ae *netlink.AttributeEncoder) error {
		for _, e := range r.expressions {
			data, err := expr.Marshal(family, e)
			if err != nil {
				return err
			}
			ae.Bytes(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, data)
		}
		return nil
	}
}

// userdata is the comment as nft lists it: type 0, length, text and a zero.
func (r rule) userdata() []byte {
	return append(append([]byte{0, byte(len(r.comment) + 1)}, r.comment...), 0)
}

// delete removes a table with all that is in it.
func (b *batch) delete(family uint8, name string) {
	b.add(unix.NFT_MSG_DELTABLE, 0, family, func(ae *netlink.AttributeEncoder) {
		ae.String(unix.NFTA_TABLE_NAME, name)
	})
}

// commit gives the transaction to the kernel. After an error the socket may hold
// more answers, and must not be used again.
func (b *batch) commit(conn *netlink.Conn) error {
	if b.err != nil || len(b.messages) == 0 {
		return b.err
	}
	b.messages[len(b.messages)-1].Header.Flags |= netlink.Acknowledge
	_, err := conn.SendMessages(append(append([]netlink.Message{border(unix.NFNL_MSG_BATCH_BEGIN)}, b.messages...),
		border(unix.NFNL_MSG_BATCH_END)))
	if err == nil {
		_, err = conn.Receive()
	}
	return err
}

// border opens or closes a transaction. Its header names the subsystem in network
// byte order.
func border(kind netlink.HeaderType) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: kind, Flags: netlink.Request},
		Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES},
	}
}

// removeStaleTables are the tables of tracers that are no more: those that belong to no
// socket. A kernel without owners may be another tracer's, which then hears no more.
func removeStaleTables(conn *netlink.Conn) (*batch, error) {
	b := &batch{}
	m, err := request(unix.NFT_MSG_GETTABLE, netlink.Dump, unix.AF_UNSPEC, nil)
	if err != nil {
		return nil, err
	}
	err = ask(conn, m, func(data []byte) error {
		name, owned, err := tableIn(data)
		if err == nil && !owned && (name == TableName || strings.HasPrefix(name, TableName+"-")) {
			b.delete(data[0], name)
		}
		return err
	})
	return b, err
}

// tableIn reads what a table is called and whether it belongs to a socket.
func tableIn(data []byte) (name string, owned bool, err error) {
	ad, err := decoder(data)
	if err != nil {
		return "", false, err
	}
	for ad.Next() {
		switch ad.Type() {
		case unix.NFTA_TABLE_NAME:
			name = ad.String()
		case attrTableOwner:
			owned = true
		}
	}
	return name, owned, ad.Err()
}

// decoder reads the attributes of a message.
func decoder(data []byte) (*netlink.AttributeDecoder, error) {
	if len(data) < nfHeaderLen {
		return nil, errTruncated
	}
	ad, err := netlink.NewAttributeDecoder(data[nfHeaderLen:])
	if err == nil {
		ad.ByteOrder = binary.BigEndian
	}
	return ad, err
}

// ask sends a request and has fn read each answer.
func ask(conn *netlink.Conn, m netlink.Message, fn func(data []byte) error) error {
	if _, err := conn.Send(m); err != nil {
		return fmt.Errorf("ask nf_tables: %w", err)
	}
	var first error
	for answer, err := range conn.ReceiveIter() {
		if err != nil {
			return fmt.Errorf("ask nf_tables: %w", err)
		}
		if err := fn(answer.Data); first == nil && err != nil {
			first = fmt.Errorf("decode an answer of nf_tables: %w", err) // the rest must be read all the same
		}
	}
	return first
}
