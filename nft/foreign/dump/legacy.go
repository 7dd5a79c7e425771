package dump

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/socket"
)

// legacyFamilies are what differs between the families: the options of getsockopt have the same
// numbers.
var legacyFamilies = [...]struct {
	names         string // the file that lists the tables that exist
	domain, level int
	target        int // offset in an entry of the offset of its target, followed by its length
}{
	model.IPv4: {"/proc/thread-self/net/ip_tables_names", unix.AF_INET, unix.IPPROTO_IP, 88},
	model.IPv6: {"/proc/thread-self/net/ip6_tables_names", unix.AF_INET6, unix.IPPROTO_IPV6, 140},
}

const (
	getInfo    = 64 // IPT_SO_GET_INFO, IP6T_SO_GET_INFO
	getEntries = 65 // IPT_SO_GET_ENTRIES, IP6T_SO_GET_ENTRIES

	tableNameSize = 32 // XT_TABLE_MAXNAMELEN
	// struct ipt_getinfo ends with the size of the entries; in struct ipt_get_entries that
	// follows the name, and the entries are aligned to 8 bytes.
	infoSize      = tableNameSize + 52
	entriesOffset = tableNameSize + 8
	// maxLegacyTable limits the memory for a table, which must be read as a whole.
	maxLegacyTable = 64 << 20
)

// Legacy returns the tables of iptables-legacy with these names, or all of them, that exist in a
// network namespace, which is given by its file descriptor; zero means the calling
// thread's. It loads no module, and creates no table. One that cannot be read is returned without
// chains, with the error.
func Legacy(netNS int, only ...string) (tables []Table, err error) {
	err = socket.In(netNS, func() (err error) {
		for _, f := range model.Families {
			of, e := legacyOf(f, only)
			tables, err = append(tables, of...), errors.Join(err, e)
		}
		return err
	})
	return tables, err
}

func legacyOf(f model.Family, only []string) (tables []Table, err error) {
	text, err := os.ReadFile(legacyFamilies[f].names)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a kernel without the backend
	}
	if err != nil {
		return nil, socket.ExplainPermission(fmt.Errorf("list the tables of iptables-legacy: %w", err),
			"read iptables-legacy")
	}
	for _, name := range strings.Fields(string(text)) {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		t := Table{Family: nft.FamilyName(f), Name: name, Legacy: true}
		if e := t.readLegacy(f); e != nil {
			err = errors.Join(err, fmt.Errorf("read table %s: %w", &t, e))
		}
		tables = append(tables, t)
	}
	return tables, err
}

func (t *Table) readLegacy(f model.Family) error {
	// Any socket of the family can read tables; a raw one would need CAP_NET_RAW, too.
	fd, err := unix.Socket(legacyFamilies[f].domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // it was only read from
	var entries []byte
	for range maxTries {
		if entries, err = legacyEntries(fd, legacyFamilies[f].level, t.Name); !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	if err == nil {
		err = t.decodeLegacy(entries, legacyFamilies[f].target)
	}
	return err
}

// legacyEntries returns the entries of a table; the error is EAGAIN if its size changes.
func legacyEntries(fd, level int, table string) ([]byte, error) {
	info := make([]byte, infoSize)
	copy(info[:tableNameSize-1], table)
	if err := getsockopt(fd, level, getInfo, info); err != nil {
		return nil, err
	}
	size := binary.NativeEndian.Uint32(info[infoSize-4:])
	if size > maxLegacyTable {
		return nil, fmt.Errorf("its %d bytes are more than %d", size, maxLegacyTable)
	}
	all := make([]byte, entriesOffset+int(size))
	copy(all[:tableNameSize-1], table)
	binary.NativeEndian.PutUint32(all[tableNameSize:], size)
	err := getsockopt(fd, level, getEntries, all)
	return all[entriesOffset:], err
}

// getsockopt reads an option into a buffer that begins with the name of the table.
func getsockopt(fd, level, option int, buffer []byte) error {
	length := uint32(len(buffer))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&buffer[0])), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

var errLegacyEntry = errors.New("an entry does not fit")

// decodeLegacy adds the chains that are only jumped to. Each begins with an entry whose target
// (struct xt_entry_target) is named ERROR and has the chain's name; one more ends the table.
func (t *Table) decodeLegacy(entries []byte, targetOffset int) error {
	const targetName, targetData = 2, 32
	inert := true
	for len(entries) > 0 {
		if len(entries) < targetOffset+4 {
			return errLegacyEntry
		}
		at, next := binary.NativeEndian.Uint16(entries[targetOffset:]), binary.NativeEndian.Uint16(entries[targetOffset+2:])
		if int(at)+targetData+4 > int(next) || int(next) > len(entries) {
			return errLegacyEntry
		}
		target := entries[at:next]
		name, data := cString(target[targetName:targetData]), target[targetData:]
		if name == "ERROR" {
			t.Chains = append(t.Chains, Chain{Chain: t.Chain(cString(data))})
		} else {
			inert = inert && name == "" && endsChain(int32(binary.NativeEndian.Uint32(data)))
		}
		entries = entries[next:]
	}
	t.Inert = inert
	t.Chains = t.Chains[:max(len(t.Chains)-1, 0)]
	return nil
}

// endsChain reports whether a verdict of the standard target, whose name is empty, is accept or
// return: -NF_ACCEPT - 1 or XT_RETURN.
func endsChain(verdict int32) bool { return verdict == -2 || verdict == -5 }

func cString(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}
