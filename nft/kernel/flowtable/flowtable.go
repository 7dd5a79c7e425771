package flowtable

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// TableName is the name of our table with a flowtable.
const TableName = "kube-vmap-fast-path"

// family is the family of the table.
const family = unix.NFPROTO_INET

// Names of objects in the table.
const (
	flowtableName = "connections"
	chainForward  = "forward"
	chainEnter    = "enter"
)

// A Flowtable is a flowtable of nf_tables, ours or that of another program.
type Flowtable struct {
	Table, Name string
	// Devices are the names of its interfaces, sorted.
	Devices []string
}

// IsOurs reports whether it is that of our table.
func (f *Flowtable) IsOurs() bool { return f.Table == TableName }

// Replace adds our table with these devices. If it exists it is replaced, and connections
// enter the new one with their next packet. The network namespace is given by its file
// descriptor; zero means that of the calling thread. After is the number of packets after
// which a connection enters.
func Replace(netNS int, devices []string, after uint64) error {
	var b socket.Batch
	deleteTable(&b)
	b.Add(unix.NFT_MSG_NEWTABLE, netlink.Create, family, func(e *attr.Encoder) { e.String(unix.NFTA_TABLE_NAME, TableName) })
	addFlowtable(&b, devices)
	if err := addChains(&b, after); err != nil {
		return err
	}
	if err := commit(netNS, &b); err != nil {
		return fmt.Errorf("add table %s: %w", TableName, err)
	}
	return nil
}

// AddDevices adds devices to our table, in one transaction. The kernel itself removes those
// that no longer exist.
func AddDevices(netNS int, devices []string) error {
	var b socket.Batch
	addFlowtable(&b, devices)
	if err := commit(netNS, &b); err != nil {
		return fmt.Errorf("add devices to table %s: %w", TableName, err)
	}
	return nil
}

// Remove removes our table if it exists.
func Remove(netNS int) error {
	var b socket.Batch
	deleteTable(&b)
	if err := commit(netNS, &b); err != nil {
		return fmt.Errorf("remove table %s: %w", TableName, err)
	}
	return nil
}

// List returns all flowtables. A kernel without flowtables has none.
func List(netNS int) (list []Flowtable, err error) {
	conn, err := socket.Open(netNS)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
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

// Foreign says which flowtable of a list another program has; an empty text if none is.
func Foreign(list []Flowtable) string {
	i := slices.IndexFunc(list, func(f Flowtable) bool { return !f.IsOurs() })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("another program has a flowtable: %s in table %s", list[i].Name, list[i].Table)
}

// commit commits a batch on a socket of its own.
func commit(netNS int, b *socket.Batch) (err error) {
	conn, err := socket.Open(netNS)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return socket.ExplainPermission(b.Commit(conn, nil), "program nftables")
}

// IsUnsupported reports whether an error of [Replace] means that the kernel has no flowtables
// (CONFIG_NF_FLOW_TABLE, CONFIG_NFT_FLOW_OFFLOAD).
func IsUnsupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, fs.ErrInvalid)
}

// deleteTable deletes the table. It adds it first, so that this is no error if there is none.
func deleteTable(b *socket.Batch) {
	for _, kind := range [...]uint16{unix.NFT_MSG_NEWTABLE, unix.NFT_MSG_DELTABLE} {
		flags := netlink.HeaderFlags(0)
		if kind == unix.NFT_MSG_NEWTABLE {
			flags = netlink.Create
		}
		b.Add(kind, flags, family, func(e *attr.Encoder) { e.String(unix.NFTA_TABLE_NAME, TableName) })
	}
}

// maxDevices is the number of devices in one message (NFT_NETDEVICE_MAX).
const maxDevices = 256

// addFlowtable adds the flowtable, or devices to it if it exists.
func addFlowtable(b *socket.Batch, devices []string) {
	for some := range slices.Chunk(devices, maxDevices) {
		b.Add(unix.NFT_MSG_NEWFLOWTABLE, netlink.Create, family, func(e *attr.Encoder) {
			e.String(attrTable, TableName)
			e.String(attrName, flowtableName)
			e.Uint32(attrFlags, flagCounter)
			e.Nested(attrHook, func() {
				e.Uint32(attrHookNumber, unix.NF_NETDEV_INGRESS)
				e.Uint32(attrHookPriority, 0)
				e.Nested(attrHookDevices, func() {
					for _, name := range some {
						e.String(attrDeviceName, name)
					}
				})
			})
		})
	}
}

// decodeFlowtable decodes the attributes of a flowtable.
func decodeFlowtable(d *attr.Decoder, b []byte) Flowtable {
	f := Flowtable{Table: attr.String(d.Find(b, attrTable)), Name: attr.String(d.Find(b, attrName))}
	for _, name := range d.Attributes(d.Find(d.Find(b, attrHook), attrHookDevices)) {
		f.Devices = append(f.Devices, attr.String(name))
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

	flagCounter = 2 // NFT_FLOWTABLE_COUNTER
)
