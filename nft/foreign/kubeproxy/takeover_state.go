package kubeproxy

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/dump"
)

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
