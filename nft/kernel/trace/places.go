package trace

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/kernel/trace/ruletext"
)

// Chain is a chain of anybody's table.
type Chain struct {
	Family uint8
	Table  string
	Name   string
	// Base tells that packets come to it from a hook, which the rest is about.
	Base       bool
	Type       string // "filter", "nat", "route"
	Hook       string // "prerouting", ...
	Priority   int32
	PolicyDrop bool // what no rule decides about
	// Own tells that the chain is the tracer's.
	Own bool
}

// IsTracer tells that the chain is a tracer's, this one's or that of another.
func (c Chain) IsTracer() bool { return c.Own || strings.HasPrefix(c.Table, TableName) }

// isIPHook tells that packets come to the chain from a hook of IP.
func (c Chain) isIPHook() bool {
	return c.Family != unix.NFPROTO_BRIDGE && slices.Contains(hookNames[:], c.Hook)
}

// FamilyName is the table's family in nft's words.
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

// Rule is a rule of anybody's table, as far as it could be read.
type Rule struct {
	ruletext.Rule
	// Gone tells that the rule was no more when it was looked for: it was replaced at
	// that moment.
	Gone bool
}

// metadataCache remembers what was read from nf_tables since that was last changed.
type metadataCache struct {
	generation uint32
	chains     map[chainKey]Chain
	rules      map[ruleKey]Rule
	links      map[uint32]link
}

// link is a network interface.
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

// refreshMetadata forgets what was read if nf_tables was changed since.
func (t *Tracer) refreshMetadata() error {
	var now uint32
	m, err := request(unix.NFT_MSG_GETGEN, 0, unix.AF_UNSPEC, nil)
	if err == nil {
		err = ask(t.own, m, func(data []byte) error {
			ad, err := decoder(data)
			for err == nil && ad.Next() {
				if ad.Type() == unix.NFTA_GEN_ID {
					now = ad.Uint32()
				}
			}
			return err
		})
	}
	if t.metadata.chains == nil || now != t.metadata.generation {
		t.metadata = metadataCache{now, map[chainKey]Chain{}, map[ruleKey]Rule{}, map[uint32]link{}}
	}
	return err
}

// chainOf is the chain that an event is from. One that cannot be read any more has
// a name and no hook.
func (t *Tracer) chainOf(e *Event) (Chain, error) {
	key := e.chainKey()
	if c, known := t.metadata.chains[key]; known {
		return c, nil
	}
	c := Chain{Family: key.family, Table: key.table, Name: key.name, Own: key.table == t.table}
	m, err := request(unix.NFT_MSG_GETCHAIN, 0, key.family, func(ae *netlink.AttributeEncoder) {
		ae.String(unix.NFTA_CHAIN_TABLE, key.table)
		ae.String(unix.NFTA_CHAIN_NAME, key.name)
	})
	if err == nil {
		err = ask(t.own, m, c.decode)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("read chain %s of table %s: %w", key.name, key.table, err)
	}
	t.metadata.chains[key] = c
	return c, nil
}

func (c *Chain) decode(data []byte) error {
	ad, err := decoder(data)
	if err != nil {
		return err
	}
	for ad.Next() {
		switch ad.Type() {
		case unix.NFTA_CHAIN_TYPE:
			c.Type = ruletext.Printable(ad.String())
		case unix.NFTA_CHAIN_POLICY:
			c.PolicyDrop = ad.Uint32() == nfDrop
		case unix.NFTA_CHAIN_HOOK:
			c.Base = true
			ad.Nested(c.decodeHook)
		}
	}
	return ad.Err()
}

func (c *Chain) decodeHook(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		switch ad.Type() {
		case unix.NFTA_HOOK_HOOKNUM:
			c.Hook = hookName(c.Family, ad.Uint32())
		case unix.NFTA_HOOK_PRIORITY:
			c.Priority = int32(ad.Uint32())
		}
	}
	return nil // the decoder keeps its own
}

// hookName is a hook in nft's words. IP and bridges have the same ones, and IP one
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

// ruleOf is the rule that an event is about.
func (t *Tracer) ruleOf(e *Event) (Rule, error) {
	key := ruleKey{e.chainKey(), e.Rule}
	if r, known := t.metadata.rules[key]; known {
		return r, nil
	}
	r := Rule{Rule: ruletext.Rule{Handle: e.Rule}, Gone: true}
	m, err := request(unix.NFT_MSG_GETRULE, 0, e.Family, func(ae *netlink.AttributeEncoder) {
		ae.String(unix.NFTA_RULE_TABLE, e.Table)
		ae.String(unix.NFTA_RULE_CHAIN, e.Chain)
		ae.Uint64(unix.NFTA_RULE_HANDLE, e.Rule)
	})
	if err == nil {
		err = ask(t.own, m, func(data []byte) (err error) {
			r.Gone = false
			r.Rule, err = ruletext.Decode(data)
			return err
		})
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("read rule %d of chain %s of table %s: %w", e.Rule, e.Chain, e.Table, err)
	}
	t.metadata.rules[key] = r
	return r, nil
}

// link reads an interface; the zero value is none.
func (t *Tracer) link(number uint32) (link, error) {
	if l, known := t.metadata.links[number]; known || number == 0 {
		return l, nil
	}
	l := link{name: fmt.Sprintf("interface %d", number)}
	m := netlink.Message{Header: netlink.Header{Type: unix.RTM_GETLINK, Flags: netlink.Request}, Data: linkRequest(number)}
	err := ask(t.links, m, l.decode)
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return l, fmt.Errorf("read the name of interface %d: %w", number, err)
	}
	t.metadata.links[number] = l
	return l, nil
}

func (l *link) decode(data []byte) error {
	ad, err := netlink.NewAttributeDecoder(data[min(unix.SizeofIfInfomsg, len(data)):])
	if err != nil {
		return err
	}
	for ad.Next() {
		switch ad.Type() {
		case unix.IFLA_IFNAME:
			l.name = ruletext.Printable(ad.String())
		case unix.IFLA_LINKINFO:
			ad.Nested(l.decodeKind)
		}
	}
	return ad.Err()
}

func (l *link) decodeKind(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		if ad.Type() == unix.IFLA_INFO_KIND {
			l.bridge = ad.String() == "bridge"
		}
	}
	return nil // the decoder keeps its own
}

// linkRequest is the body of a request for an interface (struct ifinfomsg).
func linkRequest(number uint32) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	copy(b[4:], native(number))
	return b
}

// inetIngress is NF_INET_INGRESS.
const inetIngress = 5
