package survey

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// A Table is a table of nf_tables, or of the legacy backend of iptables.
type Table struct {
	// Family is ip, ip6, inet, arp, bridge or netdev, as nft names it.
	Family, Name string
	// Legacy is true for a table of iptables-legacy, which nf_tables does not know. Of its
	// chains only those are known that are jumped to, by their names. If it is Inert, all its
	// rules and policies only accept or return, as after its module was loaded.
	Legacy, Inert bool
	// Dormant tables see no packets.
	Dormant bool
	// Comment is what nft lists as the table's comment.
	Comment string
	// Chains are in the kernel's order.
	Chains []Chain
}

// A Chain is a chain of a table.
type Chain struct {
	Name string
	// Hook is prerouting, input, forward, output, postrouting, ingress or egress; empty for
	// a chain that is only jumped to.
	Hook string
	// Drop is true if packets are dropped that no rule of the chain at a hook decided on.
	Drop bool
}

// String returns the family and the name, as in "ip kube-proxy".
func (t *Table) String() string {
	if t.Legacy {
		return t.Family + " " + t.Name + " (legacy)"
	}
	return t.Family + " " + t.Name
}

// Tables returns all tables of nf_tables with their chains. The network namespace is given by
// its file descriptor; zero means that of the calling thread.
func Tables(netNS int) (tables []Table, err error) {
	conn, err := socket.Open(netNS)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	index := map[tableKey]int{}
	err = ask(conn, unix.NFT_MSG_GETTABLE, func(d *attr.Decoder, family uint8, attributes []byte) {
		t := decodeTable(d, attributes)
		t.Family = families[family]
		index[tableKey{family, t.Name}] = len(tables)
		tables = append(tables, t)
	})
	if err != nil {
		return nil, fmt.Errorf("list the tables of nf_tables: %w", err)
	}
	err = ask(conn, unix.NFT_MSG_GETCHAIN, func(d *attr.Decoder, family uint8, attributes []byte) {
		table, c := decodeChain(d, family, attributes)
		// A table may be added between the two requests.
		if i, known := index[tableKey{family, table}]; known {
			tables[i].Chains = append(tables[i].Chains, c)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the chains of nf_tables: %w", err)
	}
	return tables, nil
}

type tableKey struct {
	family uint8
	name   string
}

// ask lists objects of all families.
func ask(conn *netlink.Conn, kind uint16, fn func(d *attr.Decoder, family uint8, attributes []byte)) error {
	request := socket.Nftables(kind, netlink.Dump, unix.NFPROTO_UNSPEC, nil)
	err := socket.Ask(conn, request, func(m netlink.Message) error {
		var d attr.Decoder
		if body := d.Body(m.Data); d.Err() == nil {
			fn(&d, m.Data[0], body)
		}
		return d.Err()
	})
	return socket.ExplainPermission(err, "read nftables")
}

func decodeTable(d *attr.Decoder, attributes []byte) (t Table) {
	for kind, value := range d.Attributes(attributes) {
		switch kind {
		case unix.NFTA_TABLE_NAME:
			t.Name = attr.String(value)
		case unix.NFTA_TABLE_FLAGS:
			t.Dormant = d.Uint32(value)&unix.NFT_TABLE_F_DORMANT != 0
		case tableUserdata:
			t.Comment = attr.String(attr.Userdata(value, attr.CommentTag))
		}
	}
	return t
}

func decodeChain(d *attr.Decoder, family uint8, attributes []byte) (table string, c Chain) {
	for kind, value := range d.Attributes(attributes) {
		switch kind {
		case unix.NFTA_CHAIN_TABLE:
			table = attr.String(value)
		case unix.NFTA_CHAIN_NAME:
			c.Name = attr.String(value)
		case unix.NFTA_CHAIN_POLICY:
			c.Drop = d.Uint32(value) == policyDrop
		case unix.NFTA_CHAIN_HOOK:
			if number := d.Find(value, unix.NFTA_HOOK_HOOKNUM); number != nil {
				c.Hook = hookName(family, d.Uint32(number))
			}
		}
	}
	return table, c
}

const (
	tableUserdata = 6 // NFTA_TABLE_USERDATA, since Linux 5.10
	policyDrop    = 0 // NF_DROP
)

// families are the names of nft by the kernel's number.
var families = map[uint8]string{
	unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_ARP: "arp",
	unix.NFPROTO_NETDEV: "netdev", unix.NFPROTO_BRIDGE: "bridge", unix.NFPROTO_IPV6: "ip6",
}

// hooks are the names of nft by the kernel's number (NF_INET_*), netdevHooks those of family
// netdev.
var (
	hooks       = []string{"prerouting", "input", "forward", "output", "postrouting", "ingress"}
	netdevHooks = []string{"ingress", "egress"}
)

// hookName returns the name of a hook, and "unknown" for one of a later kernel.
func hookName(family uint8, number uint32) string {
	names := hooks
	if family == unix.NFPROTO_NETDEV {
		names = netdevHooks
	}
	if int(number) < len(names) {
		return names[number]
	}
	return "unknown"
}
