package leftovers

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/leftovers/ipvs"
)

// Config says where to look, and what is somebody else's.
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means that of the
	// calling thread.
	NetNS int
	// ExcludeCIDRs are ranges whose IPVS virtual servers are not kube-proxy's, as
	// its option ipvs.excludeCIDRs says.
	ExcludeCIDRs []netip.Prefix
}

// Everybody who writes nf_tables makes a removal start again that was on its way.
const (
	// maxReads is how often all is read.
	maxReads = 10
	// maxWrites is how often, for each of these, the rest is done again: reading the
	// hooks, and writing.
	maxWrites = 100
)

// Remove removes what kube-proxy left, but for what its iptables mode left in the
// legacy backend. The result names, for a log, what is gone. Nothing to remove is
// no error; what cannot be removed does not keep the rest.
//
// It belongs after the first commit of our own rules, lest a packet meet none,
// and after the removal of legacy rules, which may hold ipvs mode's sets.
// Connections that IPVS carries do not survive it.
func Remove(c Config) (removed []string, err error) {
	for _, f := range model.Families {
		names, e := removeTables(func() (*netlink.Conn, error) { return open(c.NetNS) }, f)
		removed = append(removed, names...)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("remove kube-proxy's tables and chains of family %s: %w", nft.FamilyName(f), e))
		}
	}
	names, e := ipvs.Remove(ipvs.Config{NetNS: c.NetNS, ExcludeCIDRs: c.ExcludeCIDRs})
	return append(removed, names...), errors.Join(err, e)
}

// removeTables removes what is in nf_tables, in one transaction. What was read
// while others wrote may lack something, and so is read once more.
func removeTables(dial func() (*netlink.Conn, error), f model.Family) (removed []string, err error) {
	calm := 0
	for range maxReads {
		names, whole, e := tryRemove(dial, f)
		removed = append(removed, names...)
		if e != nil && !isRetryable(e) {
			return removed, permission(e)
		}
		if err = e; e != nil {
			continue
		}
		if len(names) == 0 {
			calm++
		}
		if whole || calm == 2 {
			return removed, nil
		}
	}
	return removed, fmt.Errorf("other programs change nf_tables too fast: %w", cmp.Or(err, error(unix.ERESTART)))
}

// isRetryable reports whether somebody got in between the reading and the writing, or
// made the reading fail.
func isRetryable(err error) bool {
	for _, errno := range []error{unix.ERESTART, unix.ENOENT, unix.ENOBUFS, unix.EINTR, unix.EAGAIN} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// permission says what to do where permission is missing.
func permission(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("no permission to program nftables; run as root or with CAP_NET_ADMIN: %w", err)
	}
	return err
}

// tryRemove reads and writes once, and reports whether it saw all there was. It
// has a socket of its own, because answers of a failed reading may still wait at
// the last one.
func tryRemove(dial func() (*netlink.Conn, error), f model.Family) (removed []string, whole bool, err error) {
	conn, err := dial()
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	s, err := read(conn, f)
	if err != nil {
		return nil, false, err
	}
	removed, err = s.remove(conn, f)
	return removed, s.consistent, err
}

// remove writes until the kernel takes it: somebody may write in between, and the
// kernel may know of a chain that is in use where it could not be seen.
func (s *state) remove(conn *netlink.Conn, f model.Family) (removed []string, err error) {
	busy := map[string][]string{}
	for range maxWrites {
		plans, nothing := s.plan(busy)
		if nothing {
			return nil, s.check(conn)
		}
		more, err := newBatch(f, s, plans).commit(conn)
		if err == nil && len(more) == 0 {
			return s.describe(f, plans), nil
		}
		if errors.Is(err, unix.ERESTART) {
			err = s.refresh(conn, f)
		}
		if err != nil {
			return nil, err
		}
		for _, c := range more {
			busy[c.table] = append(busy[c.table], c.name)
		}
	}
	return nil, unix.ERESTART
}

func (s *state) plan(busy map[string][]string) (plans []Plan, nothing bool) {
	nothing = !s.hasTable
	for _, t := range s.tables {
		p := t.Plan(busy[t.Name]...)
		nothing = nothing && p.IsEmpty()
		plans = append(plans, p)
	}
	return plans, nothing
}

// check finds out whether somebody wrote during the reading.
func (s *state) check(conn *netlink.Conn) error {
	now, err := generation(conn)
	s.consistent = s.consistent && now == s.generation
	return err
}

// describe says what is gone.
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
