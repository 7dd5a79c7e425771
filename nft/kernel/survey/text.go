package survey

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/kernel/trace/ruletext"
)

// RuleText returns a rule of nf_tables in the syntax of nft, by its table ("inet filter"), chain
// and handle; empty if there is none. The network namespace is that of the calling thread.
func RuleText(table, chain string, handle uint64) (text string, err error) {
	family, name, _ := strings.Cut(table, " ")
	conn, err := socket.Open(0)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	m := socket.Nftables(unix.NFT_MSG_GETRULE, 0, familyNumber(family), func(e *attr.Encoder) {
		e.String(unix.NFTA_RULE_TABLE, name)
		e.String(unix.NFTA_RULE_CHAIN, chain)
		e.Uint64(unix.NFTA_RULE_HANDLE, handle)
	})
	err = socket.Ask(conn, m, func(m netlink.Message) error {
		r, err := ruletext.Decode(m.Data)
		text = r.Text
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return text, err
}

// chainKey is a chain of a table.
type chainKey struct {
	tableKey
	chain string
}

// WriteOthers writes the tables of nf_tables that are not kube-vmap's, with their rules, much as
// nft lists them: enough to find what happens to a packet.
func WriteOthers(w io.Writer) (err error) {
	tables, err := Tables(0)
	if err != nil {
		return err
	}
	rules, err := ruleTexts()
	if err != nil {
		return err
	}
	for i := range tables {
		t := &tables[i]
		if t.IsOurs() {
			continue
		}
		if _, err := fmt.Fprintf(w, "table %s {%s\n", ruletext.Printable(t.String()), remarkIf(t.Dormant, " # dormant")); err != nil {
			return err
		}
		for _, c := range t.Chains {
			hook := remarkIf(c.Hook != "", " # hook "+c.Hook) + remarkIf(c.Drop, ", policy drop")
			lines := rules[chainKey{tableKey{familyNumber(t.Family), t.Name}, c.Name}]
			if _, err := fmt.Fprintf(w, "\tchain %s {%s\n%s\t}\n", ruletext.Printable(c.Name), hook, strings.Join(lines, "")); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(w, "}"); err != nil {
			return err
		}
	}
	return nil
}

func remarkIf(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// ruleTexts returns the lines of all rules of nf_tables.
func ruleTexts() (lines map[chainKey][]string, err error) {
	conn, err := socket.Open(0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	lines = map[chainKey][]string{}
	request := socket.Nftables(unix.NFT_MSG_GETRULE, netlink.Dump, unix.NFPROTO_UNSPEC, nil)
	err = socket.Ask(conn, request, func(m netlink.Message) error {
		r, err := ruletext.Decode(m.Data)
		if err != nil {
			return err
		}
		var d attr.Decoder
		body := d.Body(m.Data)
		key := chainKey{tableKey{m.Data[0], attr.String(d.Find(body, unix.NFTA_RULE_TABLE))}, attr.String(d.Find(body, unix.NFTA_RULE_CHAIN))}
		lines[key] = append(lines[key], fmt.Sprintf("\t\t%s # handle %d%s\n", r.Text, r.Handle, remarkIf(r.Comment != "", ", "+r.Comment)))
		return d.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list the rules of nf_tables: %w", err)
	}
	return lines, nil
}
