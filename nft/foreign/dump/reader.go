// Package dump reads what other programs have in the kernel's packet filters: tables, chains,
// rules, sets and elements of nf_tables, and the tables of iptables-legacy by name. It is the only
// reader of them; our own rule set has one that keeps up with every change (package kernel). It
// writes nothing, creates no table, and loads no module of iptables only to find no rules.
//
//	Tables, Legacy          names, hooks, policies             to recognize programs
//	Reader                  chains, rules                      kube-proxy's remains
//	                        what one packet meets              explain
//
// A Reader implements [simulate.Rules]. A rule is a [simulate.Rule], also for its text.
//
// [Reader] asks the kernel for the base chains (dump), the rules of a chain (dump of that chain),
// and the element of a key (NFT_MSG_GETSETELEM; a set of intervals that are not part of a longer
// key is read whole). So, except for the list of chains, the cost does not depend on the size of
// the rule set. It has no snapshot: others may write meanwhile, unless [Reader.Snapshot] reads again.
//
// Expressions are decoded by google/nftables, but only if it decodes every
// attribute. Its own listing of rules is not used: it skips expressions that it does not know
// and attributes that it does not read, and a simulation without them would be wrong.
package dump

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/kernel/socket"
)

// A Reader reads nf_tables of one network namespace. It is not safe for concurrent use.
// It implements [simulate.Rules].
type Reader struct{ conn *netlink.Conn }

// Open opens a socket to read from. The network namespace is given by its file descriptor;
// zero means the calling thread's.
func Open(netNS int) (*Reader, error) {
	conn, err := socket.Open(netNS)
	if err != nil {
		return nil, err
	}
	return NewReader(conn), nil
}

// NewReader returns a reader that shares a socket.
func NewReader(conn *netlink.Conn) *Reader { return &Reader{conn: conn} }

// Close closes the socket.
func (r *Reader) Close() error { return r.conn.Close() }

// A message is the body of an answer, after its headers.
type message struct {
	family     uint8
	attributes []byte
}

// get sends a request and calls fn for each answer. Errors of the decoder are returned, too.
func (r *Reader) get(
	kind uint16, flags netlink.HeaderFlags, family uint8, request func(*attr.Encoder), fn func(*attr.Decoder, message),
) error {
	err := socket.Ask(r.conn, socket.Nftables(kind, flags, family, request), func(m netlink.Message) error {
		return decode(m.Data, fn)
	})
	return permission(err)
}

// decode calls fn with a message, given what follows its netlink header.
func decode(data []byte, fn func(*attr.Decoder, message)) error {
	var d attr.Decoder
	if attributes := d.Body(data); d.Err() == nil {
		fn(&d, message{data[0], attributes})
	}
	return d.Err()
}

func permission(err error) error { return socket.ExplainPermission(err, "read nftables") }

var families = map[uint8]string{
	unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_ARP: "arp",
	unix.NFPROTO_NETDEV: "netdev", unix.NFPROTO_BRIDGE: "bridge", unix.NFPROTO_IPV6: "ip6",
}

// FamilyNumber returns the number of a family; of all for the empty name.
func FamilyNumber(name string) uint8 {
	for number, n := range families {
		if n == name {
			return number
		}
	}
	return unix.NFPROTO_UNSPEC
}

// A Rule is a rule with where it is.
type Rule struct {
	simulate.Rule
	Chain simulate.Chain
	// Remark is the comment as nft lists it. iptables-nft has its comments in a match.
	Remark string
}

// Text returns the rule in the syntax of nft; see [simulate.Rule.Text].
func (r *Rule) Text() string { return r.Rule.Text(r.Chain.Table.Family) }

// Comment returns the comment of a rule of nft or iptables.
func (r *Rule) Comment() string {
	return cmp.Or(r.Remark, r.Rule.Comment())
}

// EachRule calls fn with the rules of a chain, or of all chains or tables without a name, until
// fn returns false. The kernel lists the rest only when it is read; so after that the reader must
// be closed. There are none if the chain is gone.
func (r *Reader) EachRule(c simulate.Chain, fn func(Rule) (more bool)) error {
	request := socket.Nftables(unix.NFT_MSG_GETRULE, netlink.Dump, FamilyNumber(c.Table.Family), func(e *attr.Encoder) {
		if c.Table.Name != "" {
			e.String(unix.NFTA_RULE_TABLE, c.Table.Name)
		}
		if c.Name != "" {
			e.String(unix.NFTA_RULE_CHAIN, c.Name)
		}
	})
	err := socket.Ask(r.conn, request, func(m netlink.Message) error {
		rule, err := decodeRuleMessage(m)
		// Some kernels also list rules of other chains.
		in := (c.Table.Name == "" || rule.Chain.Table.Name == c.Table.Name) && (c.Name == "" || rule.Chain.Name == c.Name)
		if err == nil && in && !fn(rule) {
			return socket.ErrStop
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return permission(fmt.Errorf("list the rules of chain %s in table %s: %w", c.Name, c.Table, err))
	}
	return nil
}

func decodeRuleMessage(m netlink.Message) (rule Rule, err error) {
	err = decode(m.Data, func(d *attr.Decoder, m message) { rule = decodeRule(d, m) })
	return rule, err
}

func decodeRule(d *attr.Decoder, m message) (rule Rule) {
	rule.Chain.Table.Family = families[m.family]
	for kind, value := range d.Attributes(m.attributes) {
		switch kind {
		case unix.NFTA_RULE_TABLE:
			rule.Chain.Table.Name = attr.String(value)
		case unix.NFTA_RULE_CHAIN:
			rule.Chain.Name = attr.String(value)
		case unix.NFTA_RULE_HANDLE:
			rule.Handle = d.Uint64(value)
		case unix.NFTA_RULE_USERDATA:
			rule.Remark = attr.String(attr.Userdata(value, attr.CommentTag))
		case unix.NFTA_RULE_EXPRESSIONS:
			for _, b := range d.Attributes(value) {
				rule.Expressions = append(rule.Expressions, simulate.DecodeExpression(d, m.family, b))
			}
		}
	}
	return rule
}

// maxTries is how often something is read because other programs changed it meanwhile.
const maxTries = 5

// ErrChanging is the error if other programs change nf_tables faster than it is read.
var ErrChanging = errors.New("read nf_tables: other programs change it too fast")

// Snapshot calls fn, which reads from r, again until nf_tables did not change meanwhile. So
// all that fn has read existed at one moment, except for what packets change. It ends earlier
// if fn reports that it has read the same as before.
func (r *Reader) Snapshot(fn func() (same bool, err error)) error {
	var err error
	for range maxTries {
		before, genErr := socket.Generation(r.conn)
		if genErr != nil {
			return permission(genErr)
		}
		var same bool
		same, err = fn()
		after, genErr := socket.Generation(r.conn)
		if genErr != nil || after == before || same {
			return errors.Join(err, permission(genErr))
		}
	}
	return errors.Join(err, ErrChanging)
}

// BaseChains implements [simulate.Rules].
func (r *Reader) BaseChains(f model.Family) (list []simulate.BaseChain, err error) {
	tables, err := r.tablesWithChains()
	for i := range tables {
		for _, c := range tables[i].Chains {
			if (seesIP(c) || seesFrames(c)) && !tables[i].Dormant {
				list = append(list, c)
			}
		}
	}
	return chainsOf(f, list), err
}

// seesIP reports whether the chain is at a hook that IP packets pass.
func seesIP(c Chain) bool {
	return slices.Contains([]string{"ip", "ip6", "inet", "netdev"}, c.Table.Family) &&
		(slices.Contains(simulate.Hooks[:], c.Hook) || c.Hook == simulate.HookEgress)
}

// seesFrames reports whether the chain is at a hook of bridges or ARP.
func seesFrames(c Chain) bool {
	return (c.Table.Family == "bridge" || c.Table.Family == "arp") && c.Hook != ""
}

func chainsOf(f model.Family, all []simulate.BaseChain) (out []simulate.BaseChain) {
	for _, b := range all {
		switch b.Table.Family {
		case "inet", "netdev", "bridge", "arp", nft.FamilyName(f):
			out = append(out, b)
		}
	}
	return out
}

// Rules implements [simulate.Rules].
func (r *Reader) Rules(c simulate.Chain) (list []simulate.Rule, err error) {
	err = r.EachRule(c, func(rule Rule) bool {
		list = append(list, rule.Rule)
		return true
	})
	return list, err
}

// Set implements [simulate.Rules]. Elements are looked up by the kernel, but a set of
// intervals is read whole.
func (r *Reader) Set(t simulate.Table, name string) (*simulate.Set, error) {
	s, err := r.readSet(t, name)
	if err != nil {
		return nil, fmt.Errorf("read set %s of table %s: %w", name, t, err)
	}
	s.Find = func(key []byte) (simulate.Element, bool, error) {
		found, err := r.lookup(s, key)
		switch {
		case err != nil:
			return simulate.Element{}, false, fmt.Errorf("look up a key in set %s of table %s: %w", name, t, err)
		case found == nil:
			return simulate.Element{}, false, nil
		}
		return *found, true, nil
	}
	return &s.Set, nil
}
