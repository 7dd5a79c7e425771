package kubeproxy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/kernel/socket"
)

// SuspendComment is the comment of each rule that suspends a chain, by which they are found
// again, in both backends of iptables and in nftables mode.
const SuspendComment = "suspended by kube-vmap"

// Suspend returns the changes after which no part translates packets: each part begins with a
// rule that returns. Everything else stays as it is. [Found.Resume] undoes it, and so does a
// kube-proxy that runs: in iptables and ipvs mode with its next sync, in nftables mode with
// the next full one, which is hourly, or when it starts. Without a part that is awake the
// batch is empty.
//
// The flag "dormant" would suspend a table of nftables mode in one step, too. But a
// kube-proxy that starts on a dormant table fails its first sync (1.36.3 on Linux 6.18): it
// clears the flag and replaces the base chains in one transaction, and that is refused
// (nf_tables_addchain, __NFT_TABLE_F_UPDATE).
func (f *Found) Suspend() nft.Batch {
	var b nft.Batch
	for _, p := range f.Awake() {
		text := fmt.Sprintf("insert rule %s return comment %q", p, SuspendComment) // iptables-nft lists it as "-j RETURN"
		family := nft.FamilyNumber(p.Family)
		b = append(b, change(text, unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE, family, func(e *attr.Encoder) {
			socket.EncodeRule(e, family, p.Table, p.Chain, SuspendComment, &expr.Verdict{Kind: expr.VerdictReturn})
		}))
	}
	return b
}

// Resume returns the changes that undo [Found.Suspend]. Rules are deleted by their handles, which
// are valid in this state of nf_tables only: if another program commits in between, the kernel
// refuses the batch with ERESTART, and [Find] has to be called again. Without a suspended part
// the batch is empty.
func (f *Found) Resume() (b nft.Batch) {
	for _, p := range f.Suspended() {
		for _, handle := range p.handles {
			text := fmt.Sprintf("delete rule %s handle %d", p, handle)
			b = append(b, change(text, unix.NFT_MSG_DELRULE, 0, nft.FamilyNumber(p.Family), func(e *attr.Encoder) {
				encodeRuleRef(e, p.Table, p.Chain, handle)
			}))
		}
	}
	return f.atGeneration(b)
}

func (f *Found) atGeneration(b nft.Batch) nft.Batch {
	for i, op := range b {
		change := op.(nft.ForeignChange)
		change.Generation = f.generation
		b[i] = change
	}
	return b
}

// change returns a change of another program's object. It panics if an attribute is too long
// for netlink, which no name is that the kernel knows.
func change(text string, kind, flags uint16, family uint8, attributes func(*attr.Encoder)) nft.Op {
	var e attr.Encoder
	attributes(&e)
	if err := e.Err(); err != nil {
		panic("kubeproxy: " + err.Error())
	}
	return nft.ForeignChange{Text: text, Kind: kind, Flags: flags, Family: family, Attributes: e.Bytes}
}

// The marker is a table with the name of kube-proxy's and one chain without a hook. Calico's
// Felix looks for any chain in that table to find out whether kube-proxy is in nftables
// mode, and restarts in iptables mode when there is none (tigera/operator 4389).
const (
	markerChain   = "kube-vmap-marker"
	markerComment = "left by kube-vmap for programs that look for kube-proxy"
)

// AddMarker returns the changes that add the marker in a family. If it exists already nothing
// happens, and a table of kube-proxy only gets one more chain.
func AddMarker(f model.Family) nft.Batch {
	name := nft.FamilyName(f) + " " + tableName
	return nft.Batch{
		change("add table "+name, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, nft.FamilyNumber(f), markerTable),
		change("add chain "+name+" "+markerChain, unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, nft.FamilyNumber(f),
			markerChainOf),
	}
}

func markerTable(e *attr.Encoder) {
	e.String(unix.NFTA_TABLE_NAME, tableName)
	e.Comment(attrTableUserdata, markerComment)
}

func markerChainOf(e *attr.Encoder) {
	e.String(unix.NFTA_CHAIN_TABLE, tableName)
	e.String(unix.NFTA_CHAIN_NAME, markerChain)
}

// DeleteMarkers returns the changes that delete the markers which were found. Like the changes of
// [Found.Resume] they are valid in this state of nf_tables only: the table may be a running
// kube-proxy's a moment later.
func (f *Found) DeleteMarkers() nft.Batch {
	var b nft.Batch
	for _, family := range f.Markers {
		text := "delete table " + nft.FamilyName(family) + " " + tableName
		b = append(b, change(text, unix.NFT_MSG_DELTABLE, 0, nft.FamilyNumber(family), func(e *attr.Encoder) {
			e.String(unix.NFTA_TABLE_NAME, tableName)
		}))
	}
	return f.atGeneration(b)
}

// isMarker reports whether these chains of the table of nftables mode are only the marker.
// Its comment is no sign of that: the table keeps it when kube-proxy adds its own chains.
func isMarker(all map[string]bool) bool {
	base, exists := all[markerChain]
	return exists && !base && len(all) == 1
}

// takeoverTableName is the name of a table, in family inet, whose comment is the state of a
// take-over. It survives a restart of kube-vmap. A reboot deletes it, as it does kube-proxy's rules.
const takeoverTableName = "kube-vmap-takeover"

// StateReturned begins the state of a node that was returned to kube-proxy.
const StateReturned = "returned"

// attrTableUserdata is NFTA_TABLE_USERDATA (include/uapi/linux/netfilter/nf_tables.h).
const attrTableUserdata = 6

// ReadTakeoverState returns the state of a take-over; empty if there is none. For netNS see
// [Find]. A proxy with a name takes over nothing.
func ReadTakeoverState(netNS int) (state string, err error) {
	if model.ProxyName() != "" {
		return "", nil
	}
	r, err := dump.Open(netNS)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	tables, err := r.Tables("inet")
	if err != nil {
		return "", fmt.Errorf("read the state of a take-over: %w", err)
	}
	for _, t := range tables {
		if t.Name == takeoverTableName {
			state = t.Comment
		}
	}
	return state, nil
}

const cut = " ..."

// WriteTakeoverState returns the changes that set the state of a take-over. Of a long one
// the first words are kept: a part of an address or port would be another one. What cannot be
// in a comment of nft is replaced.
func WriteTakeoverState(state string) nft.Batch {
	comment := strings.Map(func(r rune) rune {
		switch {
		case r == '"':
			return '\''
		case r < ' ' || r == '\x7f':
			return ' '
		}
		return r
	}, state)
	if len(comment) > attr.MaxComment {
		end := attr.MaxComment - len(cut)
		if space := strings.LastIndexByte(comment[:end+1], ' '); space > 0 {
			end = space
		}
		comment = strings.ToValidUTF8(comment[:end], "") + cut
	}
	// The comment of an existing table cannot be changed.
	return append(DeleteTakeoverState(), takeoverTable(unix.NFT_MSG_NEWTABLE,
		fmt.Sprintf("add table inet %s { comment \"%s\"; }", takeoverTableName, comment),
		func(e *attr.Encoder) { e.Comment(attrTableUserdata, comment) }))
}

// DeleteTakeoverState returns the changes that delete the state of a take-over, if there is
// one.
func DeleteTakeoverState() nft.Batch {
	nothing := func(*attr.Encoder) {}
	return nft.Batch{
		takeoverTable(unix.NFT_MSG_NEWTABLE, "add table inet "+takeoverTableName, nothing),
		takeoverTable(unix.NFT_MSG_DELTABLE, "delete table inet "+takeoverTableName, nothing),
	}
}

func takeoverTable(kind uint16, text string, attributes func(*attr.Encoder)) nft.Op {
	var flags uint16
	if kind == unix.NFT_MSG_NEWTABLE {
		flags = unix.NLM_F_CREATE
	}
	return change(text, kind, flags, unix.NFPROTO_INET, func(e *attr.Encoder) {
		e.String(unix.NFTA_TABLE_NAME, takeoverTableName)
		attributes(e)
	})
}
