package kubeproxy

import (
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

const (
	// writeBuffer limits the length of a transaction, which is one datagram; some hundred
	// thousand chains fit. Nothing is allocated.
	writeBuffer = 64 << 20
	// readTimeout is how long a socket may be read from. The kernel answers immediately;
	// this only ends what would never end.
	readTimeout = 30 * time.Second
)

// open opens a socket to nf_tables.
func open(netNS int) (*netlink.Conn, error) {
	conn, err := socket.Open(netNS)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(conn.SetWriteBuffer(writeBuffer), conn.SetReadDeadline(time.Now().Add(readTimeout))); err != nil {
		return nil, errors.Join(fmt.Errorf("set up a netfilter socket: %w", err), conn.Close())
	}
	return conn, nil
}

// A state is what the tables of a family hold.
type state struct {
	// generation is that of nf_tables when the rules at the hooks were read.
	generation uint32
	// consistent is true while everything was read at that generation.
	consistent bool
	// hasTable is whether the table of kube-proxy's nftables mode exists, hasMarker whether
	// the marker is there in its place.
	hasTable, hasMarker bool
	// addMarker is whether to add the marker.
	addMarker bool
	tables    []*table
}

// A table is a table of iptables, with the handles of its rules.
type table struct {
	Table
	handles []uint64
}

// read reads the tables of a family.
func read(conn *netlink.Conn, f model.Family) (*state, error) {
	s := &state{consistent: true}
	var err error
	if s.generation, err = socket.Generation(conn); err != nil {
		return nil, err
	}
	names, err := tableNames(conn, f)
	if err != nil {
		return nil, err
	}
	if names[tableName] {
		own, err := ownChains(conn, f, tableName)
		if err != nil {
			return nil, err
		}
		s.hasMarker = isMarker(own)
		s.hasTable = !s.hasMarker
	}
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

// refresh reads again only the rules at the hooks. They are few, however many Services there
// were, and they are deleted by handle: if the table was rebuilt, a handle may be another
// rule's.
func (s *state) refresh(conn *netlink.Conn, f model.Family) (err error) {
	s.consistent = false
	if s.generation, err = socket.Generation(conn); err != nil {
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

// ask sends a request and calls fn with the attributes of each answer.
func ask(conn *netlink.Conn, m netlink.Message, fn func(d *attr.Decoder, attributes []byte)) error {
	return socket.Ask(conn, m, func(answer netlink.Message) error {
		var d attr.Decoder
		fn(&d, d.Body(answer.Data))
		return d.Err()
	})
}

// tableNames returns the names of a family's tables. A kernel without the family has none.
func tableNames(conn *netlink.Conn, f model.Family) (map[string]bool, error) {
	names := map[string]bool{}
	m := socket.Nftables(unix.NFT_MSG_GETTABLE, netlink.Dump, nft.FamilyNumber(f), nil)
	err := ask(conn, m, func(d *attr.Decoder, attributes []byte) {
		names[attr.String(d.Find(attributes, unix.NFTA_TABLE_NAME))] = true
	})
	if isUnsupported(err) {
		err = nil
	}
	return names, err
}

// isUnsupported reports whether the kernel does not have a family of nf_tables.
func isUnsupported(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP)
}

// read reads chains and rules.
func (t *table) read(conn *netlink.Conn, f model.Family) error {
	m := socket.Nftables(unix.NFT_MSG_GETCHAIN, netlink.Dump, nft.FamilyNumber(f), func(e *attr.Encoder) {
		e.String(unix.NFTA_CHAIN_TABLE, t.Name)
	})
	if err := ask(conn, m, t.addChain); err != nil {
		return err
	}
	return t.readRules(conn, f, "")
}

// readRules reads the rules of a chain, or of all chains if it has no name.
func (t *table) readRules(conn *netlink.Conn, f model.Family, chain string) error {
	m := socket.Nftables(unix.NFT_MSG_GETRULE, netlink.Dump, nft.FamilyNumber(f), func(e *attr.Encoder) {
		e.String(unix.NFTA_RULE_TABLE, t.Name)
		if chain != "" {
			e.String(unix.NFTA_RULE_CHAIN, chain)
		}
	})
	return ask(conn, m, func(d *attr.Decoder, attributes []byte) { t.addRule(d, attributes, chain) })
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

// addChain adds a chain if it is in this table: some kernels also list others.
func (t *table) addChain(d *attr.Decoder, attributes []byte) {
	var in, name string
	var base bool
	for kind, value := range d.Attributes(attributes) {
		switch kind {
		case unix.NFTA_CHAIN_TABLE:
			in = attr.String(value)
		case unix.NFTA_CHAIN_NAME:
			name = attr.String(value)
		case unix.NFTA_CHAIN_HOOK:
			base = true
		}
	}
	if in == t.Name {
		t.Chains[name] = base
	}
}

// addRule adds a rule if it is in this table and, unless that is empty, in this chain.
func (t *table) addRule(d *attr.Decoder, attributes []byte, chain string) {
	var in string
	var handle uint64
	var r Rule
	for kind, value := range d.Attributes(attributes) {
		switch kind {
		case unix.NFTA_RULE_TABLE:
			in = attr.String(value)
		case unix.NFTA_RULE_CHAIN:
			r.Chain = attr.String(value)
		case unix.NFTA_RULE_HANDLE:
			handle = d.Uint64(value)
		case unix.NFTA_RULE_EXPRESSIONS:
			r.Target = jumpTarget(d, value)
		}
	}
	if in == t.Name && (chain == "" || chain == r.Chain) {
		t.Rules, t.handles = append(t.Rules, r), append(t.handles, handle)
	}
}

// jumpTarget returns the chain that a rule jumps to. Only an "immediate" expression has a
// verdict with a chain; the data of others is not decoded.
func jumpTarget(d *attr.Decoder, expressions []byte) (chain string) {
	for _, e := range d.Attributes(expressions) {
		if attr.String(d.Find(e, unix.NFTA_EXPR_NAME)) != "immediate" {
			continue
		}
		data := d.Find(d.Find(e, unix.NFTA_EXPR_DATA), unix.NFTA_IMMEDIATE_DATA)
		if name := d.Find(d.Find(data, unix.NFTA_DATA_VERDICT), unix.NFTA_VERDICT_CHAIN); name != nil {
			chain = attr.String(name)
		}
	}
	return chain
}
