package trace

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/kernel/trace/ruletext"
)

// A Chain is a chain of any table.
type Chain struct {
	Family uint8
	Table  string
	Name   string
	// Base is true if the chain is at a hook, which the following fields describe.
	Base       bool
	Type       string // "filter", "nat", "route"
	Hook       string // "prerouting", ...
	Priority   int32
	PolicyDrop bool
	// Own is true if the chain is this tracer's.
	Own bool
}

// IsTracer reports whether the chain is a tracer's, this one's or another.
func (c Chain) IsTracer() bool { return c.Own || strings.HasPrefix(c.Table, TableName) }

// isIPHook reports whether the chain is at a hook of IP.
func (c Chain) isIPHook() bool {
	return c.Family != unix.NFPROTO_BRIDGE && slices.Contains(hookNames[:], c.Hook)
}

// FamilyName returns the name of the table's family in nft.
func (c Chain) FamilyName() string {
	switch c.Family {
	case unix.NFPROTO_INET:
		return "inet"
	case unix.NFPROTO_IPV4:
		return "ip"
	case unix.NFPROTO_ARP:
		return "arp"
	case unix.NFPROTO_NETDEV:
		return "netdev"
	case unix.NFPROTO_BRIDGE:
		return "bridge"
	case unix.NFPROTO_IPV6:
		return "ip6"
	}
	return fmt.Sprintf("family-%d", c.Family)
}

// A Rule is a rule of any table, as far as it could be read.
type Rule struct {
	ruletext.Rule
	// Gone is true if the rule no longer existed when it was read: it was replaced at that
	// moment.
	Gone bool
}

// A metadataCache is what was read about chains, rules and interfaces since nf_tables last
// changed.
type metadataCache struct {
	generation uint32
	chains     map[chainKey]Chain
	rules      map[ruleKey]Rule
	links      map[uint32]link
}

// A link is a network interface.
type link struct {
	name   string
	bridge bool
}

type chainKey struct {
	family      uint8
	table, name string
}

type ruleKey struct {
	chain  chainKey
	handle uint64
}

func (e *Event) chainKey() chainKey { return chainKey{e.Family, e.Table, e.Chain} }

// refreshMetadata clears the cache if nf_tables changed.
func (t *Tracer) refreshMetadata() error {
	now, err := socket.Generation(t.own)
	if t.metadata.chains == nil || now != t.metadata.generation {
		t.metadata = metadataCache{now, map[chainKey]Chain{}, map[ruleKey]Rule{}, map[uint32]link{}}
	}
	return err
}

// chainOf returns the chain of an event. A chain that no longer exists has a name and no
// hook.
func (t *Tracer) chainOf(e *Event) (Chain, error) {
	key := e.chainKey()
	if c, known := t.metadata.chains[key]; known {
		return c, nil
	}
	c := Chain{Family: key.family, Table: key.table, Name: key.name, Own: key.table == t.table}
	m := socket.Nftables(unix.NFT_MSG_GETCHAIN, 0, key.family, func(e *attr.Encoder) {
		e.String(unix.NFTA_CHAIN_TABLE, key.table)
		e.String(unix.NFTA_CHAIN_NAME, key.name)
	})
	if err := socket.Ask(t.own, m, c.decode); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("read chain %s of table %s: %w", key.name, key.table, err)
	}
	t.metadata.chains[key] = c
	return c, nil
}

func (c *Chain) decode(m netlink.Message) error {
	var d attr.Decoder
	for kind, value := range d.Attributes(d.Body(m.Data)) {
		switch kind {
		case unix.NFTA_CHAIN_TYPE:
			c.Type = printableString(value)
		case unix.NFTA_CHAIN_POLICY:
			c.PolicyDrop = d.Uint32(value) == nfDrop
		case unix.NFTA_CHAIN_HOOK:
			c.Base = true
			for kind, value := range d.Attributes(value) {
				switch kind {
				case unix.NFTA_HOOK_HOOKNUM:
					c.Hook = hookName(c.Family, d.Uint32(value))
				case unix.NFTA_HOOK_PRIORITY:
					c.Priority = int32(d.Uint32(value))
				}
			}
		}
	}
	return d.Err()
}

// inetIngress is NF_INET_INGRESS.
const inetIngress = 5

// hookName returns the name of a hook in nft. IP and bridges have the same ones, and IP one
// more.
func hookName(family uint8, number uint32) string {
	switch {
	case family == unix.NFPROTO_NETDEV && number == 0, family == unix.NFPROTO_INET && number == inetIngress:
		return "ingress"
	case family == unix.NFPROTO_NETDEV && number == 1:
		return "egress"
	case family == unix.NFPROTO_ARP || number >= uint32(len(hookNames)):
		return fmt.Sprintf("hook %d", number)
	}
	return hookNames[number]
}

// ruleOf returns the rule of an event.
func (t *Tracer) ruleOf(e *Event) (Rule, error) {
	key := ruleKey{e.chainKey(), e.Rule}
	if r, known := t.metadata.rules[key]; known {
		return r, nil
	}
	r := Rule{Rule: ruletext.Rule{Handle: e.Rule}, Gone: true}
	m := socket.Nftables(unix.NFT_MSG_GETRULE, 0, e.Family, func(enc *attr.Encoder) {
		enc.String(unix.NFTA_RULE_TABLE, e.Table)
		enc.String(unix.NFTA_RULE_CHAIN, e.Chain)
		enc.Uint64(unix.NFTA_RULE_HANDLE, e.Rule)
	})
	err := socket.Ask(t.own, m, func(m netlink.Message) (err error) {
		r.Gone = false
		r.Rule, err = ruletext.Decode(m.Data)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("read rule %d of chain %s of table %s: %w", e.Rule, e.Chain, e.Table, err)
	}
	t.metadata.rules[key] = r
	return r, nil
}

// link returns an interface by its index; the zero value if that is zero.
func (t *Tracer) link(index uint32) (link, error) {
	if l, known := t.metadata.links[index]; known || index == 0 {
		return l, nil
	}
	name, bridge, err := t.routes.Interface(int(index))
	if err != nil {
		return link{}, err
	}
	l := link{ruletext.Printable(name), bridge}
	if name == "" { // it no longer exists
		l.name = fmt.Sprintf("interface %d", index)
	}
	t.metadata.links[index] = l
	return l, nil
}
