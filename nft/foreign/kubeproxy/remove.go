package kubeproxy

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// Config is the configuration of [Remove].
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means the
	// calling thread's.
	NetNS int
	// ExcludeCIDRs are ranges whose IPVS virtual servers are not kube-proxy's (its option
	// ipvs.excludeCIDRs).
	ExcludeCIDRs []netip.Prefix
	// Marker is whether the marker is to be there afterwards, added in the same
	// transaction; see [AddMarker]. A marker that exists is never removed.
	Marker bool
}

// Any commit to nf_tables meanwhile makes a removal start over.
const (
	// maxReads is how often everything is read.
	maxReads = 10
	// maxWrites is how often, after each of these, the rules at the hooks are read again
	// and the batch is committed.
	maxWrites = 100
)

// Remove removes what kube-proxy left, except for rules of iptables-legacy. The result names what
// was removed, for a log. Nothing to remove is no error, and
// a part that cannot be removed does not stop the others.
//
// Call it after the first commit of our own rules, so packets always meet rules.
// Connections that IPVS carries are cut.
func Remove(c Config) (removed []string, err error) {
	for _, f := range model.Families {
		names, e := removeTables(func() (*netlink.Conn, error) { return open(c.NetNS) }, f, c.Marker)
		removed = append(removed, names...)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("remove kube-proxy's tables and chains of family %s: %w", nft.FamilyName(f), e))
		}
	}
	names, e := removeIPVS(c.NetNS, c.ExcludeCIDRs)
	return append(removed, names...), errors.Join(err, e)
}

// removeTables removes what is in nf_tables, in one transaction. A read during which other
// programs wrote may be incomplete, so it is repeated.
func removeTables(dial func() (*netlink.Conn, error), f model.Family, marker bool) (removed []string, err error) {
	quiet := 0 // reads that found nothing
	for range maxReads {
		names, consistent, e := tryRemove(dial, f, marker)
		removed = append(removed, names...)
		if e != nil && !isRetryable(e) {
			return removed, socket.ExplainPermission(e, "program nftables")
		}
		if err = e; e != nil {
			continue
		}
		if len(names) == 0 {
			quiet++
		}
		if consistent || quiet == 2 {
			return removed, nil
		}
	}
	return removed, fmt.Errorf("other programs change nf_tables too fast: %w", cmp.Or(err, error(unix.ERESTART)))
}

// isRetryable reports whether another program may have caused the error, by a commit between
// the read and the write or during the read.
func isRetryable(err error) bool {
	return slices.ContainsFunc([]error{unix.ERESTART, unix.ENOENT, unix.ENOBUFS, unix.EINTR, unix.EAGAIN},
		func(errno error) bool { return errors.Is(err, errno) })
}

// tryRemove reads and writes once, and reports whether the read was consistent. It uses a
// new socket, because answers of a failed read may still wait at the last one.
func tryRemove(dial func() (*netlink.Conn, error), f model.Family, marker bool) (removed []string, consistent bool,
	err error,
) {
	conn, err := dial()
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	s, err := read(conn, f)
	if err != nil {
		return nil, false, err
	}
	s.addMarker = marker && !s.hasMarker
	removed, err = s.remove(conn, f)
	return removed, s.consistent, err
}

// remove commits until the kernel accepts the batch: other programs may write in between.
func (s *state) remove(conn *netlink.Conn, f model.Family) (removed []string, err error) {
	for range maxWrites {
		plans, empty := s.plan()
		if empty {
			return nil, s.check(conn)
		}
		b := newBatch(f, s, plans)
		err := b.Commit(conn, nil)
		switch {
		case err == nil:
			return s.describe(f, plans), nil
		case s.addMarker && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP)):
			return nil, nil // a kernel without the family has nothing else of it
		case !errors.Is(err, unix.ERESTART):
			return nil, fmt.Errorf("commit the removal: %w", err)
		}
		if err := s.refresh(conn, f); err != nil {
			return nil, err
		}
	}
	return nil, unix.ERESTART
}

// plan returns the plans of all tables, and whether there is nothing to remove.
func (s *state) plan() (plans []Plan, empty bool) {
	empty = !s.hasTable && !s.addMarker
	for _, t := range s.tables {
		p := t.Plan()
		empty = empty && p.IsEmpty()
		plans = append(plans, p)
	}
	return plans, empty
}

func (s *state) check(conn *netlink.Conn) error {
	now, err := socket.Generation(conn)
	s.consistent = s.consistent && now == s.generation
	return err
}

func (s *state) describe(f model.Family, plans []Plan) (names []string) {
	if s.hasTable {
		names = append(names, "table "+nft.FamilyName(f)+" "+tableName)
	}
	for i, t := range s.tables {
		if !plans[i].IsEmpty() {
			names = append(names, fmt.Sprintf("%s %s: %s", nft.FamilyName(f), t.Name, plans[i]))
		}
	}
	return names
}

// newBatch returns the transaction that removes what is left of a family. It is valid for the
// generation at which the state was read.
func newBatch(f model.Family, s *state, plans []Plan) socket.Batch {
	family := nft.FamilyNumber(f)
	b := socket.Batch{Generation: s.generation}
	if s.hasTable {
		b.Add(unix.NFT_MSG_DELTABLE, 0, family, func(e *attr.Encoder) { e.String(unix.NFTA_TABLE_NAME, tableName) })
	}
	if s.addMarker {
		b.Add(unix.NFT_MSG_NEWTABLE, netlink.Create, family, markerTable)
		b.Add(unix.NFT_MSG_NEWCHAIN, netlink.Create, family, markerChainOf)
	}
	for i, t := range s.tables {
		addPlan(&b, family, t, plans[i])
	}
	return b
}

// addPlan deletes jumps before the chains that they jump to.
func addPlan(b *socket.Batch, family uint8, t *Table, p Plan) {
	for _, i := range p.Unhook {
		b.Add(unix.NFT_MSG_DELRULE, 0, family, func(e *attr.Encoder) {
			encodeRuleRef(e, t.Name, t.Rules[i].Chain, t.Rules[i].Handle)
		})
	}
	for _, name := range slices.Concat(p.Delete, p.Empty) {
		b.Add(unix.NFT_MSG_DELRULE, 0, family, func(e *attr.Encoder) { encodeRuleRef(e, t.Name, name, 0) })
	}
	for _, name := range p.Delete {
		b.Add(unix.NFT_MSG_DELCHAIN, 0, family, func(e *attr.Encoder) {
			e.String(unix.NFTA_CHAIN_TABLE, t.Name)
			e.String(unix.NFTA_CHAIN_NAME, name)
		})
	}
}

// encodeRuleRef appends what names a rule; without a handle, all rules of the chain.
func encodeRuleRef(e *attr.Encoder, table, chain string, handle uint64) {
	e.String(unix.NFTA_RULE_TABLE, table)
	e.String(unix.NFTA_RULE_CHAIN, chain)
	if handle != 0 {
		e.Uint64(unix.NFTA_RULE_HANDLE, handle)
	}
}
