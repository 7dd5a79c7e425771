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
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/google/nftables/expr"
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

const family = unix.NFPROTO_INET

// Names of objects in the table.
const (
	flowtableName = "connections"
	chainForward  = "forward"
	chainEnter    = "enter"
)

// tableOwned makes a table belong to the socket that adds it (NFT_TABLE_F_OWNER, Linux 5.12).
const tableOwned = 0x2

// A Table is our table in the kernel. It belongs to a socket: other programs cannot change it,
// and the kernel removes it when the process ends, however it ends. Nothing would look for
// other programs then. It is not safe for concurrent use.
type Table struct {
	conn *netlink.Conn
	// every means that the flowtable has one device, the prefix of all names.
	every bool
}

// Refused are interfaces that the kernel does not let into a flowtable, with its errors: before
// Linux 6.16, ENOENT for one that no longer exists.
type Refused map[string]error

// Add adds our table with all devices, also later ones. If the kernel does not support prefixes
// of names there (before Linux 6.17) it adds these devices. A connection enters after so many
// packets. The network namespace is given by its file descriptor; zero means the calling
// thread's. If another process owns such a table the error is EPERM; one without an owner is
// replaced.
func Add(netNS int, devices []string, after uint64) (*Table, Refused, error) {
	conn, err := socket.Open(netNS)
	if err != nil {
		return nil, nil, err
	}
	t := &Table{conn: conn}
	refused, err := t.add(devices, after)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("add table %s: %w", TableName(), err), t.Close())
	}
	return t, refused, nil
}

func (t *Table) add(devices []string, after uint64) (Refused, error) {
	var b socket.Batch
	name := func(e *attr.Encoder) { e.String(unix.NFTA_TABLE_NAME, TableName()) }
	b.Add(unix.NFT_MSG_NEWTABLE, netlink.Create, family, name) // to delete it without an error
	b.Add(unix.NFT_MSG_DELTABLE, 0, family, name)
	b.Add(unix.NFT_MSG_NEWTABLE, netlink.Create, family, func(e *attr.Encoder) {
		name(e)
		e.Uint32(unix.NFTA_TABLE_FLAGS, tableOwned)
	})
	hook(&b, "")
	addChains(&b, after)
	refused, err := t.try(&b, []string{everyDevice})
	if t.every = err == nil && len(refused) == 0; t.every || err != nil {
		return nil, err
	}
	return t.commit(&b, devices)
}

// HasEveryDevice reports whether the flowtable has all devices, also later ones.
func (t *Table) HasEveryDevice() bool { return t.every }

// AddDevices adds devices to the flowtable, in one transaction, unless it has every device.
// Kernels before 6.16 remove devices that no longer exist; later ones keep their names. After
// an error the Table can only be closed.
func (t *Table) AddDevices(devices []string) (Refused, error) {
	if t.every {
		return nil, nil
	}
	refused, err := t.commit(&socket.Batch{}, devices)
	if err != nil {
		return nil, fmt.Errorf("add devices to table %s: %w", TableName(), err)
	}
	return refused, nil
}

// Close closes the socket, and the kernel removes the table with it.
func (t *Table) Close() error {
	if err := t.conn.Close(); err != nil {
		return fmt.Errorf("close the socket of table %s: %w", TableName(), err)
	}
	return nil
}

// commit commits a batch, followed by a message for each device. Devices that the kernel
// refuses are skipped. After an error the socket cannot be used again.
func (t *Table) commit(b *socket.Batch, devices []string) (Refused, error) {
	all := Refused{}
	for {
		refused, err := t.try(b, devices)
		if err != nil || len(refused) == 0 {
			return all, err
		}
		maps.Copy(all, refused)
		devices = slices.DeleteFunc(slices.Clone(devices), func(name string) bool { return refused[name] != nil })
	}
}

// try commits a batch with these devices, or nothing if the kernel refuses any.
func (t *Table) try(b *socket.Batch, devices []string) (Refused, error) {
	all := socket.Batch{Messages: slices.Clone(b.Messages)}
	for _, name := range devices {
		hook(&all, name)
	}
	refused := Refused{}
	var failed error
	err := all.Commit(t.conn, func(i int, err error) bool {
		switch {
		case i < 0:
			return false // of the whole batch
		case i >= len(b.Messages):
			refused[devices[i-len(b.Messages)]] = err
		case failed == nil:
			failed = err
		}
		return true // to read all replies
	})
	switch {
	case err != nil:
		return nil, socket.ExplainPermission(err, "program nftables")
	case errors.Is(failed, fs.ErrPermission):
		return nil, fmt.Errorf("another process has this table: %w", failed)
	}
	return refused, failed
}

// IsUnsupported reports whether an error of [Add] means that the kernel has no flowtables
// (CONFIG_NF_FLOW_TABLE, CONFIG_NFT_FLOW_OFFLOAD).
func IsUnsupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EAFNOSUPPORT) ||
		errors.Is(err, fs.ErrInvalid)
}

// hook adds a message about a device of the flowtable, or one that adds the flowtable without
// any. Each device has its own message: the kernel then returns an error for each that it
// refuses.
func hook(b *socket.Batch, device string) {
	b.Add(unix.NFT_MSG_NEWFLOWTABLE, netlink.Create, family, func(e *attr.Encoder) {
		e.String(attrTable, TableName())
		e.String(attrName, flowtableName)
		e.Uint32(attrFlags, flagCounter)
		e.Nested(attrHook, func() {
			e.Uint32(attrHookNumber, unix.NF_NETDEV_INGRESS)
			e.Uint32(attrHookPriority, 0)
			switch device {
			case "":
			case everyDevice:
				e.Nested(attrHookDevices, func() { e.String(attrDevicePrefix, "") })
			default:
				e.Nested(attrHookDevices, func() { e.String(attrDeviceName, device) })
			}
		})
	})
}

// priority of the chain, after filters of others: packets that they drop do not enter.
const priority = 10

func addChains(b *socket.Batch, after uint64) {
	b.AddChain(family, TableName(), chainEnter, nil)
	b.AddChain(family, TableName(), chainForward, &socket.Hook{Number: unix.NF_INET_FORWARD, Priority: priority})
	b.AddRule(family, TableName(), chainForward, established(after)...)
	b.AddRule(family, TableName(), chainEnter, betweenBridges()...)
	b.AddRule(family, TableName(), chainEnter, &expr.FlowOffload{Name: flowtableName})
}

// Bits of connections (include/uapi/linux/netfilter/nf_conntrack_common.h).
const (
	stateEstablished = 1 << 1 // of `ct state`
	statusDNAT       = 1 << 5 // IPS_DST_NAT
)

// established matches translated connections after so many packets of both directions.
func established(after uint64) []expr.Any {
	const r = unix.NFT_REG_1
	bit := func(key expr.CtKey, mask uint32) []expr.Any {
		bits := binary.NativeEndian.AppendUint32(nil, mask)
		return socket.Compare(&expr.Ct{Key: key, Register: r}, bits, expr.CmpOpNeq, make([]byte, 4))
	}
	out := append(bit(expr.CtKeySTATE, stateEstablished), bit(expr.CtKeySTATUS, statusDNAT)...)
	return append(out,
		&expr.Ct{Key: expr.CtKeyPKTS, Register: r},
		&expr.Byteorder{SourceRegister: r, DestRegister: r, Op: expr.ByteorderHton, Len: 8, Size: 8},
		&expr.Cmp{Op: expr.CmpOpGt, Register: r, Data: binary.BigEndian.AppendUint64(nil, after)},
		&expr.Verdict{Kind: expr.VerdictGoto, Chain: chainEnter},
	)
}

// Keys of meta that package expr has no names for (include/uapi/linux/netfilter/nf_tables.h).
const (
	metaInputKind  = 26 // NFT_META_IIFKIND
	metaOutputKind = 27 // NFT_META_OIFKIND
)

// betweenBridges returns if the packet comes from a bridge and goes to one.
func betweenBridges() []expr.Any {
	kind := append([]byte("bridge"), make([]byte, unix.IFNAMSIZ-len("bridge"))...)
	var out []expr.Any
	for _, key := range [...]expr.MetaKey{metaInputKind, metaOutputKind} {
		out = append(out, socket.Compare(&expr.Meta{Key: key, Register: unix.NFT_REG_1}, nil, expr.CmpOpEq, kind)...)
	}
	return append(out, &expr.Verdict{Kind: expr.VerdictReturn})
}
