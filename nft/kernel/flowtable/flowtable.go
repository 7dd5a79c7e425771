// Package flowtable programs the fast path of established connections: a table of its own, of
// family inet, with a flowtable of nf_tables. Packets of a connection that is in it are translated
// and sent on where they enter the node, without routing, connection tracking and rules.
//
//	table inet kube-vmap-fast-path {
//		flags owner
//		flowtable connections {
//			hook ingress priority filter
//			devices = { cni0, eth0, veth1 }
//			counter
//		}
//		chain forward {
//			type filter hook forward priority filter + 10; policy accept;
//			ct state established ct status dnat ct packets > 20 goto enter
//		}
//		chain enter {
//			iifkind "bridge" oifkind "bridge" return
//			flow add @connections
//		}
//	}
//
// The table is not part of the rule set (package nft), because flows are lost with the table that
// has them, because it follows the interfaces of the node instead of Services, and because it must
// not outlive the process: it belongs to a socket, and the kernel removes it together with the
// socket.
//
// Only translated connections enter, and only after a number of packets in both directions, to
// spare short ones the cost of a flow. The expression that reads this number makes the kernel
// count packets of connections (net.netfilter.nf_conntrack_acct, nft_ct_get_init), and the
// flag counter makes it continue for connections in the flowtable. Connections of one bridge
// do not enter: br_netfilter hands translated requests to the bridge without routing them, so
// the flowtable would not find the requests and each would cost more.
//
// Since Linux 6.17 the flowtable has one device, the empty prefix, which matches every interface
// including loopbacks. nft 1.0.6 and 1.1.3 list the table without its flowtable then. Older
// kernels get the names of all interfaces but loopbacks.
//
// The kernel itself (nf_flow_table_ip.c, nf_flow_table_core.c) leaves to the slow path packets
// that are fragments, have IP options, exceed the MTU, or whose TTL ends here. A connection
// leaves the flowtable 30 s after its last packet, when its route changes, when its entry of
// connection tracking is deleted and, in kernels without fdbaf5163331 (2025), with the first
// packet that has FIN or RST.
package flowtable

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// TableBase is the name of our table with a flowtable, without the name of the proxy.
const TableBase = "kube-vmap-fast-path"

// TableName returns the name of our table with a flowtable.
func TableName() string { return model.Named(TableBase) }

// A Flowtable is a flowtable of nf_tables, ours or another program's.
type Flowtable struct {
	Table, Name string
	// Devices are the names of its interfaces, sorted. One that ends in * is a prefix of names.
	Devices []string
}

// prefixMark ends a device that is a prefix of names. everyDevice is the prefix of all names.
const (
	prefixMark  = "*"
	everyDevice = "" + prefixMark
)

// IsOurs reports whether it belongs to our table.
func (f *Flowtable) IsOurs() bool { return f.Table == TableName() }

// List returns all flowtables, except those with more than about 1,600 devices, which do not
// fit in a reply of the kernel. A kernel without flowtables returns an empty list.
func List(netNS int) (list []Flowtable, err error) {
	conn, err := socket.Open(netNS)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// The kernel makes a reply as large as the buffer of the socket's last read, and a reply of
	// a page before the first one. A flowtable with more devices than fit, about 200, would be
	// missing from the list without an error (nf_tables_dump_flowtable).
	if _, err := socket.Generation(conn); err != nil {
		return nil, socket.ExplainPermission(err, "read nftables")
	}
	request := socket.Nftables(unix.NFT_MSG_GETFLOWTABLE, netlink.Dump, unix.AF_UNSPEC, nil)
	err = socket.Ask(conn, request, func(m netlink.Message) error {
		var d attr.Decoder
		list = append(list, decodeFlowtable(&d, d.Body(m.Data)))
		return d.Err()
	})
	if err != nil {
		return nil, socket.ExplainPermission(fmt.Errorf("list flowtables: %w", err), "read nftables")
	}
	return list, nil
}

// Foreign says which flowtable of a list another program has, or "".
func Foreign(list []Flowtable) string {
	i := slices.IndexFunc(list, func(f Flowtable) bool { return !f.IsOurs() })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("another program has a flowtable: %s in table %s", list[i].Name, list[i].Table)
}

func decodeFlowtable(d *attr.Decoder, b []byte) Flowtable {
	f := Flowtable{Table: attr.String(d.Find(b, attrTable)), Name: attr.String(d.Find(b, attrName))}
	for kind, value := range d.Attributes(d.Find(d.Find(b, attrHook), attrHookDevices)) {
		name := attr.String(value)
		if kind == attrDevicePrefix {
			name += prefixMark
		}
		f.Devices = append(f.Devices, name)
	}
	slices.Sort(f.Devices)
	return f
}

// Attributes and flags of flowtables (include/uapi/linux/netfilter/nf_tables.h).
const (
	attrTable        = 1 // NFTA_FLOWTABLE_TABLE
	attrName         = 2 // NFTA_FLOWTABLE_NAME
	attrHook         = 3 // NFTA_FLOWTABLE_HOOK
	attrFlags        = 7 // NFTA_FLOWTABLE_FLAGS
	attrHookNumber   = 1 // NFTA_FLOWTABLE_HOOK_NUM
	attrHookPriority = 2 // NFTA_FLOWTABLE_HOOK_PRIORITY
	attrHookDevices  = 3 // NFTA_FLOWTABLE_HOOK_DEVS
	attrDeviceName   = 1 // NFTA_DEVICE_NAME
	attrDevicePrefix = 2 // NFTA_DEVICE_PREFIX, Linux 6.17

	flagCounter = 2 // NFT_FLOWTABLE_COUNTER
)
