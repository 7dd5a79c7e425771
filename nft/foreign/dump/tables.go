package dump

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/kernel/flowtable"
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
