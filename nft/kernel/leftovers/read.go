package leftovers

import (
	"errors"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// state is what a family's tables held.
type state struct {
	// generation is that of nf_tables when the rules at the hooks were read.
	generation uint32
	// consistent is true as long as all else was read at the same generation.
	consistent bool
	// hasTable is whether the table of kube-proxy's nftables mode is there.
	hasTable bool
	tables   []*table
}

// table is a table of iptables, with the numbers of its rules.
type table struct {
	Table
	handles []uint64
}

// read reads a family.
func read(conn *netlink.Conn, f model.Family) (*state, error) {
	s := &state{consistent: true}
	var err error
	if s.generation, err = generation(conn); err != nil {
		return nil, err
	}
	names, err := tables(conn, f)
	if err != nil {
		return nil, err
	}
	s.hasTable = names[tableName]
	for _, name := range IPTablesNames {
		if !names[name] {
			continue
		}
		t := &table{Table: Table{Name: name, Chains: map[string]bool{}}}
		if err := t.read(conn, f); err != nil {
			return nil, err
		}
		s.tables = append(s.tables, t)
	}
	return s, nil
}

// refresh reads again only what stands at the hooks. That is little, however many
// Services there were, and what is deleted by number: a number may be another
// rule's if the table was made anew.
func (s *state) refresh(conn *netlink.Conn, f model.Family) (err error) {
	s.consistent = false
	if s.generation, err = generation(conn); err != nil {
		return err
	}
	for _, t := range s.tables {
		t.dropHookRules()
		for name, base := range t.Chains {
			if !base {
				continue
			}
			if err := t.readRules(conn, f, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// generation is a number that grows with every change of nf_tables.
func generation(conn *netlink.Conn) (id uint32, err error) {
	m := request(unix.NFT_MSG_GETGEN, 0, unix.AF_UNSPEC, nil)
	return id, ask(conn, m, func(ad *netlink.AttributeDecoder) error {
		for ad.Next() {
			if ad.Type() == unix.NFTA_GEN_ID {
				id = ad.Uint32()
			}
		}
		return nil
	})
}

// tables lists the names of a family's tables. A kernel without the family has
// none.
func tables(conn *netlink.Conn, f model.Family) (map[string]bool, error) {
	names := map[string]bool{}
	m := request(unix.NFT_MSG_GETTABLE, netlink.Dump, nft.FamilyNumber(f), nil)
	err := ask(conn, m, func(ad *netlink.AttributeDecoder) error {
		for ad.Next() {
			if ad.Type() == unix.NFTA_TABLE_NAME {
				names[ad.String()] = true
			}
		}
		return nil
	})
	if errors.Is(err, unix.EAFNOSUPPORT) {
		err = nil
	}
	return names, err
}

// read reads chains and rules.
func (t *table) read(conn *netlink.Conn, f model.Family) error {
	m := request(unix.NFT_MSG_GETCHAIN, netlink.Dump, nft.FamilyNumber(f), func(ae *netlink.AttributeEncoder) {
		ae.String(unix.NFTA_CHAIN_TABLE, t.Name)
	})
	if err := ask(conn, m, t.addChain); err != nil {
		return err
	}
	return t.readRules(conn, f, "")
}

// readRules reads the rules of a chain, or of all if it has no name.
func (t *table) readRules(conn *netlink.Conn, f model.Family, chain string) error {
	m := request(unix.NFT_MSG_GETRULE, netlink.Dump, nft.FamilyNumber(f), func(ae *netlink.AttributeEncoder) {
		ae.String(unix.NFTA_RULE_TABLE, t.Name)
		if chain != "" {
			ae.String(unix.NFTA_RULE_CHAIN, chain)
		}
	})
	return ask(conn, m, func(ad *netlink.AttributeDecoder) error {
		t.addRule(ad, chain)
		return nil
	})
}

// dropHookRules drops the rules at the hooks.
func (t *table) dropHookRules() {
	rules, handles := t.Rules[:0], t.handles[:0]
	for i, r := range t.Rules {
		if !t.Chains[r.Chain] {
			rules, handles = append(rules, r), append(handles, t.handles[i])
		}
	}
	t.Rules, t.handles = rules, handles
}

// addChain adds a chain that is in this table: not every kernel lists only those
// asked for.
func (t *table) addChain(ad *netlink.AttributeDecoder) error {
	var in, name string
	var base bool
	for ad.Next() {
		switch ad.Type() {
		case unix.NFTA_CHAIN_TABLE:
			in = ad.String()
		case unix.NFTA_CHAIN_NAME:
			name = ad.String()
		case unix.NFTA_CHAIN_HOOK:
			base = true
		}
	}
	if in == t.Name {
		t.Chains[name] = base
	}
	return nil
}

// addRule adds a rule that is in this table and chain.
func (t *table) addRule(ad *netlink.AttributeDecoder, chain string) {
	var in string
	var handle uint64
	var r Rule
	for ad.Next() {
		switch ad.Type() {
		case unix.NFTA_RULE_TABLE:
			in = ad.String()
		case unix.NFTA_RULE_CHAIN:
			r.Chain = ad.String()
		case unix.NFTA_RULE_HANDLE:
			handle = ad.Uint64()
		case unix.NFTA_RULE_EXPRESSIONS:
			ad.Nested(func(list *netlink.AttributeDecoder) error {
				r.Target = target(list)
				return nil
			})
		}
	}
	if in == t.Name && (chain == "" || chain == r.Chain) {
		t.Rules, t.handles = append(t.Rules, r), append(t.handles, handle)
	}
}

// target is the chain that a rule jumps to. Only an "immediate" expression can
// do so by itself; what others hold is passed over unread.
func target(list *netlink.AttributeDecoder) (chain string) {
	for list.Next() {
		list.Nested(func(expression *netlink.AttributeDecoder) error {
			immediate := false
			for expression.Next() {
				switch {
				case expression.Type() == unix.NFTA_EXPR_NAME:
					immediate = expression.String() == "immediate"
				case expression.Type() == unix.NFTA_EXPR_DATA && immediate:
					expression.Nested(verdict(&chain))
				}
			}
			return nil
		})
	}
	return chain
}

// verdict reads the chain of a verdict that is to be loaded; data for registers
// has none.
func verdict(chain *string) func(*netlink.AttributeDecoder) error {
	return within(unix.NFTA_IMMEDIATE_DATA, func(ad *netlink.AttributeDecoder) {
		ad.Nested(within(unix.NFTA_DATA_VERDICT, func(ad *netlink.AttributeDecoder) {
			ad.Nested(within(unix.NFTA_VERDICT_CHAIN, func(ad *netlink.AttributeDecoder) {
				*chain = ad.String()
			}))
		}))
	})
}

// within has fn read the attribute of a kind.
func within(kind uint16, fn func(*netlink.AttributeDecoder)) func(*netlink.AttributeDecoder) error {
	return func(ad *netlink.AttributeDecoder) error {
		for ad.Next() {
			if ad.Type() == kind {
				fn(ad)
			}
		}
		return nil
	}
}
