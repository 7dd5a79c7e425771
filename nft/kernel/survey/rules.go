package survey

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/flowtable"
	"kube-vmap/nft/kernel/socket"
)

// A Rule is the part of a rule that a survey needs. What a rule matches is not
// in it.
type Rule struct {
	// Accepts is whether it ends with the verdict accept.
	Accepts bool
	// Chain is the chain that it jumps or goes to, if any.
	Chain string
	// Mark has the bits of the packet mark that it may change.
	Mark uint32
}

// A RuleReader reads rules of nf_tables, which [Tables] does not.
type RuleReader struct{ conn *netlink.Conn }

// OpenRules opens a socket to read from. The network namespace is given by its file
// descriptor; zero means that of the calling thread.
func OpenRules(netNS int) (*RuleReader, error) {
	conn, err := socket.Open(netNS)
	if err != nil {
		return nil, err
	}
	return &RuleReader{conn}, nil
}

// Close closes the socket.
func (r *RuleReader) Close() error { return r.conn.Close() }

// Rules returns the rules of a chain; none if the chain is gone.
func (r *RuleReader) Rules(t *Table, chain string) (rules []Rule, err error) {
	request := socket.Nftables(unix.NFT_MSG_GETRULE, netlink.Dump, familyNumber(t.Family), func(e *attr.Encoder) {
		e.String(unix.NFTA_RULE_TABLE, t.Name)
		e.String(unix.NFTA_RULE_CHAIN, chain)
	})
	err = socket.Ask(r.conn, request, func(m netlink.Message) error {
		var d attr.Decoder
		body := d.Body(m.Data)
		// Some kernels also list rules of other chains.
		if attr.String(d.Find(body, unix.NFTA_RULE_TABLE)) == t.Name && attr.String(d.Find(body, unix.NFTA_RULE_CHAIN)) == chain {
			rules = append(rules, decodeRule(&d, d.Find(body, unix.NFTA_RULE_EXPRESSIONS)))
		}
		return d.Err()
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, socket.ExplainPermission(fmt.Errorf("list the rules of chain %s in %s: %w", chain, t, err), "read nftables")
	}
	return rules, nil
}

func familyNumber(name string) uint8 {
	for number, n := range families {
		if n == name {
			return number
		}
	}
	return unix.NFPROTO_UNSPEC
}

// decodeRule decodes expressions. One that it does not know changes nothing that a survey
// looks for.
func decodeRule(d *attr.Decoder, expressions []byte) (r Rule) {
	// keeps are the bits of the mark that are in the register which is written back: all
	// that a mask keeps, after the mark was loaded.
	var keeps uint32
	for _, e := range d.Attributes(expressions) {
		data := d.Find(e, unix.NFTA_EXPR_DATA)
		switch attr.String(d.Find(e, unix.NFTA_EXPR_NAME)) {
		case "immediate":
			r.decodeVerdict(d, data)
		case "meta":
			if key := d.Find(data, unix.NFTA_META_KEY); key == nil || d.Uint32(key) != unix.NFT_META_MARK {
				keeps = 0
			} else if d.Find(data, unix.NFTA_META_SREG) != nil {
				r.Mark |= ^keeps
			} else {
				keeps = ^uint32(0)
			}
		case "bitwise":
			keeps &= keptBits(d, data)
		case "target":
			r.Mark |= targetBits(d, data)
		case "ct", "payload", "numgen", "hash", "lookup", "fib", "socket", "rt":
			keeps = 0 // the register may be loaded from them
		}
	}
	return r
}

func (r *Rule) decodeVerdict(d *attr.Decoder, immediate []byte) {
	verdict := d.Find(d.Find(immediate, unix.NFTA_IMMEDIATE_DATA), unix.NFTA_DATA_VERDICT)
	if code := d.Find(verdict, unix.NFTA_VERDICT_CODE); code != nil {
		r.Accepts = d.Uint32(code) == verdictAccept
	}
	if chain := d.Find(verdict, unix.NFTA_VERDICT_CHAIN); chain != nil {
		r.Chain = attr.String(chain)
	}
}

const verdictAccept = 1 // NF_ACCEPT

// keptBits returns which bits "register & mask ^ xor" keeps. Other operations than this one
// keep none.
func keptBits(d *attr.Decoder, bitwise []byte) uint32 {
	mask := d.Find(d.Find(bitwise, unix.NFTA_BITWISE_MASK), unix.NFTA_DATA_VALUE)
	xor := d.Find(d.Find(bitwise, unix.NFTA_BITWISE_XOR), unix.NFTA_DATA_VALUE)
	if len(mask) != 4 || len(xor) != 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(mask) &^ binary.NativeEndian.Uint32(xor)
}

// targetBits returns the bits that a target of xtables changes: MARK since revision 2 (struct
// xt_mark_tginfo2), and CONNMARK if it restores the mark (xt_connmark_tginfo1, tginfo2).
func targetBits(d *attr.Decoder, target []byte) uint32 {
	const restore = 2 // XT_CONNMARK_RESTORE
	mode := 12
	if rev := d.Find(target, unix.NFTA_TARGET_REV); rev != nil && d.Uint32(rev) >= 2 {
		mode = 14 // after the shift
	}
	info := d.Find(target, unix.NFTA_TARGET_INFO)
	switch name := attr.String(d.Find(target, unix.NFTA_TARGET_NAME)); {
	case name == "MARK" && len(info) >= 8:
		return binary.NativeEndian.Uint32(info) | binary.NativeEndian.Uint32(info[4:])
	case name == "CONNMARK" && len(info) > mode && info[mode] == restore:
		return binary.NativeEndian.Uint32(info[8:])
	}
	return 0
}

// IsOurs reports whether a table is one of kube-vmap's rule set, or that of its fast path.
func (t *Table) IsOurs() bool {
	return !t.Legacy && (t.Name == nft.TableName || t.Name == flowtable.TableName)
}
