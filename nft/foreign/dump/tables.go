package dump

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unsafe"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/kernel/flowtable"
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

// A Chain is a chain of a table; at no hook if it is only jumped to.
type Chain = simulate.BaseChain

// String returns the family and the name, as in "ip kube-proxy".
func (t *Table) String() string {
	if t.Legacy {
		return t.Family + " " + t.Name + " (legacy)"
	}
	return t.Family + " " + t.Name
}

// Chain returns a chain of the table by its name.
func (t *Table) Chain(name string) simulate.Chain {
	return simulate.Chain{Table: simulate.Table{Family: t.Family, Name: t.Name}, Name: name}
}

// IsOurs reports whether a table is one of kube-vmap's rule set, or its flowtable's, whatever the name
// of the proxy.
func (t *Table) IsOurs() bool {
	base, _, _ := strings.Cut(t.Name, ".")
	return !t.Legacy && (base == nft.TableBase || base == flowtable.TableBase)
}

// Tables returns all tables of nf_tables with their chains, but decodes no rules, so it
// is cheap with 50,000 chains. The network namespace is given by its file descriptor; zero means
// the calling thread's.
func Tables(netNS int) (tables []Table, err error) {
	r, err := Open(netNS)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return r.tablesWithChains()
}

func (r *Reader) tablesWithChains() ([]Table, error) {
	tables, err := r.Tables("")
	if err != nil {
		return nil, err
	}
	chains, err := r.Chains(simulate.Table{})
	index := map[simulate.Table]int{}
	for i, t := range tables {
		index[simulate.Table{Family: t.Family, Name: t.Name}] = i
	}
	for _, c := range chains {
		if i, known := index[c.Table]; known { // one may be added between the two requests
			tables[i].Chains = append(tables[i].Chains, c)
		}
	}
	return tables, err
}

// Tables returns the tables of a family, or of all, without their chains. A kernel without the
// family has none.
func (r *Reader) Tables(family string) (tables []Table, err error) {
	err = r.get(unix.NFT_MSG_GETTABLE, netlink.Dump, FamilyNumber(family), nil, func(d *attr.Decoder, m message) {
		t := Table{Family: families[m.family]}
		for kind, value := range d.Attributes(m.attributes) {
			switch kind {
			case unix.NFTA_TABLE_NAME:
				t.Name = attr.String(value)
			case unix.NFTA_TABLE_FLAGS:
				t.Dormant = d.Uint32(value)&unix.NFT_TABLE_F_DORMANT != 0
			case tableUserdata:
				t.Comment = attr.String(attr.Userdata(value, attr.CommentTag))
			}
		}
		tables = append(tables, t)
	})
	if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) {
		return nil, fmt.Errorf("list the tables of nf_tables: %w", err)
	}
	return tables, nil
}

// Chains returns the chains of a table, or of all without a name.
func (r *Reader) Chains(t simulate.Table) (chains []Chain, err error) {
	err = r.get(unix.NFT_MSG_GETCHAIN, netlink.Dump, FamilyNumber(t.Family), func(e *attr.Encoder) {
		if t.Name != "" {
			e.String(unix.NFTA_CHAIN_TABLE, t.Name)
		}
	}, func(d *attr.Decoder, m message) {
		// Some kernels also list chains of other tables.
		if c := decodeChain(d, m); t.Name == "" || c.Table == t {
			chains = append(chains, c)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the chains of table %s: %w", cmp.Or(t.String(), "nf_tables"), err)
	}
	return chains, nil
}

func decodeChain(d *attr.Decoder, m message) (c Chain) {
	c.Table.Family = families[m.family]
	for kind, value := range d.Attributes(m.attributes) {
		switch kind {
		case unix.NFTA_CHAIN_TABLE:
			c.Table.Name = attr.String(value)
		case unix.NFTA_CHAIN_NAME:
			c.Name = attr.String(value)
		case unix.NFTA_CHAIN_TYPE:
			c.Type = attr.String(value)
		case unix.NFTA_CHAIN_POLICY:
			c.Drop = d.Uint32(value) == policyDrop
		case unix.NFTA_CHAIN_HOOK:
			decodeHook(d, value, &c)
		}
	}
	return c
}

func decodeHook(d *attr.Decoder, hook []byte, c *Chain) {
	number := uint32(0)
	for kind, value := range d.Attributes(hook) {
		switch kind {
		case unix.NFTA_HOOK_HOOKNUM:
			number = d.Uint32(value)
		case unix.NFTA_HOOK_PRIORITY:
			c.Priority = int32(d.Uint32(value))
		case hookDevices: // a single one, of NFTA_HOOK_DEV, is here, too
			for kind, name := range d.Attributes(value) {
				switch kind {
				case deviceName:
					c.Devices = append(c.Devices, attr.String(name))
				case devicePrefix:
					c.Devices = append(c.Devices, attr.String(name)+"*")
				}
			}
		}
	}
	names := simulate.Hooks[:]
	switch c.Table.Family {
	case "netdev":
		names = []simulate.Hook{simulate.HookIngress, simulate.HookEgress}
	case "arp":
		names = []simulate.Hook{simulate.HookInput, simulate.HookOutput, simulate.HookForward}
	}
	c.Hook = simulate.Hook(fmt.Sprintf("hook %d", number))
	if int(number) < len(names) {
		c.Hook = names[number]
	}
}

const (
	policyDrop = 0 // NF_DROP

	hookDevices  = 4 // NFTA_HOOK_DEVS
	deviceName   = 1 // NFTA_DEVICE_NAME
	devicePrefix = 2 // NFTA_DEVICE_PREFIX, Linux 6.17

	tableUserdata = 6 // NFTA_TABLE_USERDATA, since Linux 5.10
)

// WriteOthers writes the tables of nf_tables that are not kube-vmap's, with their rules, much as
// nft lists them: enough to find what happens to a packet.
func WriteOthers(w io.Writer) (err error) {
	tables, err := Tables(0)
	if err != nil {
		return err
	}
	r, err := Open(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	rules := map[simulate.Chain][]string{}
	err = r.EachRule(simulate.Chain{}, func(rule Rule) bool {
		comment := simulate.Printable(rule.Comment())
		line := fmt.Sprintf("\t\t%s # handle %d%s\n", rule.Text(), rule.Handle, remarkIf(comment != "", ", "+comment))
		rules[rule.Chain] = append(rules[rule.Chain], line)
		return true
	})
	if err != nil {
		return err
	}
	var text strings.Builder
	for i := range tables {
		t := &tables[i]
		if t.IsOurs() {
			continue
		}
		fmt.Fprintf(&text, "table %s {%s\n", simulate.Printable(t.String()), remarkIf(t.Dormant, " # dormant"))
		for _, c := range t.Chains {
			hook := remarkIf(c.Hook != "", " # hook "+string(c.Hook)) + remarkIf(c.Drop, ", policy drop")
			fmt.Fprintf(&text, "\tchain %s {%s\n%s\t}\n", simulate.Printable(c.Name), hook,
				strings.Join(rules[t.Chain(c.Name)], ""))
		}
		text.WriteString("}\n")
	}
	_, err = io.WriteString(w, text.String())
	return err
}

func remarkIf(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

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
