package survey

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
)

// legacyFamily is what differs between the two families of the legacy backend: the options of
// getsockopt have the same numbers, but the entries of a table another size.
type legacyFamily struct {
	name          string
	domain, level int
	// names is the file that lists the tables that exist.
	names string
	// targetOffset is where an entry has the offset of its target, a uint16; the next two
	// bytes are the offset of the next entry (struct ipt_entry in linux/netfilter_ipv4/ip_tables.h,
	// struct ip6t_entry in linux/netfilter_ipv6/ip6_tables.h).
	targetOffset int
}

var legacyFamilies = []legacyFamily{
	{"ip", unix.AF_INET, unix.IPPROTO_IP, "/proc/thread-self/net/ip_tables_names", 88},
	{"ip6", unix.AF_INET6, unix.IPPROTO_IPV6, "/proc/thread-self/net/ip6_tables_names", 140},
}

// Options of getsockopt, and the layout of what they return (linux/netfilter/x_tables.h,
// linux/netfilter_ipv4/ip_tables.h).
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

	// struct xt_entry_target: size, name, revision, and then the data of the target.
	targetName     = 2
	targetNameSize = 29 // XT_EXTENSION_MAXNAMELEN
	targetData     = 32
	// errorTarget is the target at the head of each chain that is only jumped to; its data
	// is the chain's name. One more, named like the target, ends the table.
	errorTarget  = "ERROR"
	verdictDrop  = -1 // -NF_DROP - 1, of the standard target, whose name is empty
	maxTableSize = 1 << 30
)

// Legacy returns the tables of iptables-legacy that exist in the network namespace of the
// calling thread, with their chains. A kernel without that backend has none.
func Legacy() (tables []Table, err error) {
	for _, f := range legacyFamilies {
		names, err := os.ReadFile(f.names)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return tables, fmt.Errorf("list the tables of iptables-legacy: %w", err)
		}
		for name := range strings.FieldsSeq(string(names)) {
			t, err := f.read(name)
			if err != nil {
				return tables, fmt.Errorf("read table %s of iptables-legacy: %w", name, err)
			}
			tables = append(tables, t)
		}
	}
	return tables, nil
}

// maxTries is how often a table is read that other programs changed meanwhile.
const maxTries = 5

// read reads a table, again if its size changed meanwhile.
func (f *legacyFamily) read(name string) (Table, error) {
	fd, err := unix.Socket(f.domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Table{}, err
	}
	defer func() { _ = unix.Close(fd) }() // it was only read from
	for range maxTries {
		info, blob, e := f.get(fd, name)
		if err = e; errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return Table{}, err
		}
		t := Table{Family: f.name, Name: name, Legacy: true}
		t.Chains, err = f.chains(info, blob)
		return t, err
	}
	return Table{}, err
}

// get returns a table's description and its entries.
func (f *legacyFamily) get(fd int, name string) (info, entries []byte, err error) {
	info = make([]byte, infoSize)
	copy(info[:tableNameSize-1], name)
	if err := getsockopt(fd, f.level, getInfo, info); err != nil {
		return nil, nil, err
	}
	size := binary.NativeEndian.Uint32(info[sizeOffset:])
	if size > maxTableSize {
		return nil, nil, fmt.Errorf("the table has %d bytes", size)
	}
	entries = make([]byte, entriesOffset+int(size))
	copy(entries[:tableNameSize-1], name)
	binary.NativeEndian.PutUint32(entries[tableNameSize:], size)
	if err := getsockopt(fd, f.level, getEntries, entries); err != nil {
		return nil, nil, err
	}
	return info, entries[entriesOffset:], nil
}

// chains returns the chains of a table: first those at a hook, then the others.
func (f *legacyFamily) chains(info, entries []byte) ([]Chain, error) {
	if len(info) < infoSize {
		return nil, fmt.Errorf("its description has %d bytes", len(info))
	}
	var chains []Chain
	valid := binary.NativeEndian.Uint32(info[validHooksOffset:])
	for hook := range hookCount {
		if valid&(1<<hook) == 0 {
			continue
		}
		// The last entry of a chain at a hook is its policy.
		policy := binary.NativeEndian.Uint32(info[underflowOffset+4*hook:])
		c := Chain{Name: strings.ToUpper(hooks[hook]), Hook: hooks[hook]}
		if name, data, _, err := f.target(entries, int(policy)); err != nil {
			return nil, err
		} else if name == "" && len(data) >= 4 {
			c.Drop = int32(binary.NativeEndian.Uint32(data)) == verdictDrop
		}
		chains = append(chains, c)
	}
	for at := 0; at < len(entries); {
		name, data, next, err := f.target(entries, at)
		if err != nil {
			return nil, err
		}
		if chain := text(data); name == errorTarget && chain != errorTarget {
			chains = append(chains, Chain{Name: chain})
		}
		at += next
	}
	return chains, nil
}

// target returns the name and the data of the target of the entry at an offset, and the
// entry's size.
func (f *legacyFamily) target(entries []byte, at int) (name string, data []byte, size int, err error) {
	if at < 0 || at+f.targetOffset+4 > len(entries) {
		return "", nil, 0, fmt.Errorf("an entry at %d of %d bytes", at, len(entries))
	}
	entry := entries[at:]
	offset := int(binary.NativeEndian.Uint16(entry[f.targetOffset:]))
	size = int(binary.NativeEndian.Uint16(entry[f.targetOffset+2:]))
	if offset+targetData > size || size > len(entry) {
		return "", nil, 0, fmt.Errorf("an entry of %d bytes with a target at %d", size, offset)
	}
	target := entry[offset:size]
	return text(target[targetName : targetName+targetNameSize]), target[targetData:], size, nil
}

// text returns what is before the first zero byte.
func text(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
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
