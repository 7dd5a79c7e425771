package xtables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// A layout is what differs between the two families: the options of getsockopt have the same
// numbers, but the entries of a table have another size.
type layout struct {
	domain, level int
	// names is the file that lists the tables that exist.
	names string
	// addrLen is the length of an address. The interfaces follow four addresses; protocol,
	// flags and inverted are offsets.
	addrLen                   int
	protocol, flags, inverted int
	// targetOffset is where an entry has the offset of its target, a uint16; the next two
	// bytes are the offset of the next entry. The matches begin at elements.
	targetOffset, elements int
	// isGoto and hasProtocol are bits of the flags.
	isGoto, hasProtocol uint8
}

var layouts = [...]layout{
	model.IPv4: {
		domain: unix.AF_INET, level: unix.IPPROTO_IP, names: "/proc/thread-self/net/ip_tables_names",
		addrLen: 4, protocol: 80, flags: 82, inverted: 83, targetOffset: 88, elements: 112, isGoto: 2,
	},
	model.IPv6: {
		domain: unix.AF_INET6, level: unix.IPPROTO_IPV6, names: "/proc/thread-self/net/ip6_tables_names",
		addrLen: 16, protocol: 128, flags: 131, inverted: 132, targetOffset: 140, elements: 168, isGoto: 4, hasProtocol: 1,
	},
}

// Options of getsockopt, and the layout of what they return.
const (
	getInfo    = 64 // IPT_SO_GET_INFO, IP6T_SO_GET_INFO
	getEntries = 65 // IPT_SO_GET_ENTRIES, IP6T_SO_GET_ENTRIES

	tableNameSize = 32 // XT_TABLE_MAXNAMELEN
	hookCount     = 5  // NF_INET_NUMHOOKS
	// struct ipt_getinfo: name, valid_hooks, hook_entry, underflow, num_entries, size.
	validHooksOffset = tableNameSize
	hookEntryOffset  = validHooksOffset + 4
	underflowOffset  = hookEntryOffset + 4*hookCount
	sizeOffset       = underflowOffset + 4*hookCount + 4
	infoSize         = sizeOffset + 4
	// struct ipt_get_entries: name, size, entries, which are aligned to 8 bytes.
	entriesOffset = tableNameSize + 8
	maxTableSize  = 1 << 30
)

// Names returns the tables that exist in the network namespace of the calling thread; none if
// the kernel lacks the backend. Asking for another table would create it.
func Names(f model.Family) ([]string, error) {
	text, err := os.ReadFile(layouts[f].names)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the tables of iptables-legacy: %w", err)
	}
	return strings.Fields(string(text)), nil
}

// A Table is a table as the kernel has it.
type Table struct {
	Name          string
	family        model.Family
	info, entries []byte
}

// maxTries is how often a table is read that other programs changed meanwhile.
const maxTries = 5

// ReadTable reads a table of [Names] in the network namespace of the calling thread, again if
// its size changed meanwhile.
func ReadTable(f model.Family, name string) (*Table, error) {
	return ReadTableUpTo(f, name, maxTableSize)
}

// ReadTableUpTo is [ReadTable], with an error if the table has more bytes than the limit.
func ReadTableUpTo(f model.Family, name string, limit uint32) (*Table, error) {
	t, err := readTable(f, name, limit)
	if err != nil {
		return nil, fmt.Errorf("read table %s of iptables-legacy: %w", name, err)
	}
	return t, nil
}

func readTable(f model.Family, name string, limit uint32) (*Table, error) {
	// Any socket of the family can read tables; a raw one would need CAP_NET_RAW, too.
	fd, err := unix.Socket(layouts[f].domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }() // it was only read from
	t := &Table{Name: name, family: f}
	for range maxTries {
		if err = t.get(fd, limit); !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return t, err
}

// get reads a table's description and its entries.
func (t *Table) get(fd int, limit uint32) error {
	level := layouts[t.family].level
	t.info = make([]byte, infoSize)
	copy(t.info[:tableNameSize-1], t.Name)
	if err := getsockopt(fd, level, getInfo, t.info); err != nil {
		return err
	}
	size := binary.NativeEndian.Uint32(t.info[sizeOffset:])
	if size > limit {
		return fmt.Errorf("its %d bytes are more than %d", size, limit)
	}
	all := make([]byte, entriesOffset+int(size))
	copy(all[:tableNameSize-1], t.Name)
	binary.NativeEndian.PutUint32(all[tableNameSize:], size)
	err := getsockopt(fd, level, getEntries, all)
	t.entries = all[entriesOffset:]
	return err
}

// getsockopt reads an option into a buffer that already has the name of the table.
func getsockopt(fd, level, option int, buffer []byte) error {
	length := uint32(len(buffer))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&buffer[0])), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// An entry is one rule in the blob.
type entry struct {
	at     int
	bytes  []byte
	target extension
	// targetAt is the offset of the target, where the matches end.
	targetAt int
}

// An extension is a match or a target: struct xt_entry_match, struct xt_entry_target.
type extension struct {
	name     string
	revision uint8
	data     []byte
}

const (
	extensionName     = 2
	extensionNameSize = 29 // XT_EXTENSION_MAXNAMELEN
	extensionData     = 32
	// errorTarget is the target at the head of each chain that is only jumped to; its data
	// is the chain's name. One more, named like the target, ends the table.
	errorTarget = "ERROR"
)

// entry returns the entry at an offset.
func (t *Table) entry(at int) (entry, error) {
	l := layouts[t.family]
	if at < 0 || at+l.elements > len(t.entries) {
		return entry{}, fmt.Errorf("no room for an entry at %d of %d bytes", at, len(t.entries))
	}
	b := t.entries[at:]
	target := int(binary.NativeEndian.Uint16(b[l.targetOffset:]))
	size := int(binary.NativeEndian.Uint16(b[l.targetOffset+2:]))
	if target < l.elements || target+extensionData > size || size > len(b) {
		return entry{}, fmt.Errorf("an entry of %d bytes has its target at %d", size, target)
	}
	return entry{at: at, bytes: b[:size], targetAt: target, target: decodeExtension(b[target:size])}, nil
}

// decodeExtension decodes a match or target of at least extensionData bytes.
func decodeExtension(b []byte) extension {
	return extension{
		name: text(b[extensionName : extensionName+extensionNameSize]), revision: b[extensionName+extensionNameSize], data: b[extensionData:],
	}
}

// text returns what is before the first zero byte.
func text(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}

// number returns a number of the description.
func (t *Table) number(offset int) int {
	return int(binary.NativeEndian.Uint32(t.info[offset:]))
}
