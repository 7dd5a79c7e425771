package ruletext

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Rule is what a rule of the kernel does.
type Rule struct {
	Handle uint64
	// Text is the rule in nft's words, or close to it.
	Text string
	// Comment is what its author wrote to it.
	Comment string
	// Rejects tells that it answers the sender where it drops a packet.
	Rejects bool
	// Packets is what it has counted, if it counts.
	Packets uint64
}

// headerLen is the length of a netfilter message's own header (struct nfgenmsg).
const headerLen = 4

// Decode reads a rule from a message of the kernel, given what follows the netlink
// header.
func Decode(message []byte) (Rule, error) {
	if len(message) < headerLen {
		return Rule{}, fmt.Errorf("decode a rule: %w", errTruncated)
	}
	a, err := parse(message[headerLen:])
	if err != nil {
		return Rule{}, fmt.Errorf("decode a rule: %w", err)
	}
	w := &writer{family: message[0], registers: map[uint32]value{}}
	var broken error
	err = each(a[unix.NFTA_RULE_EXPRESSIONS], func(_ uint16, expression []byte) {
		if e := w.expression(expression); e != nil {
			broken = e
		}
	})
	if err == nil {
		err = broken
	}
	if err != nil {
		return Rule{}, fmt.Errorf("decode the expressions of a rule: %w", err)
	}
	comment := commentIn(a[unix.NFTA_RULE_USERDATA])
	if comment == "" {
		comment = w.comment
	}
	return Rule{
		Handle: a.number(unix.NFTA_RULE_HANDLE), Text: strings.Join(w.words, " "),
		Comment: comment, Rejects: w.rejects, Packets: w.packets,
	}, nil
}

// commentIn finds the comment in a rule's userdata, which is nft's: type, length,
// value; a comment is of type 0 (NFTNL_UDATA_RULE_COMMENT).
func commentIn(userdata []byte) string {
	for len(userdata) >= 2 {
		kind, n := userdata[0], int(userdata[1])
		if len(userdata) < 2+n {
			return ""
		}
		if kind == 0 {
			return trim(userdata[2 : 2+n])
		}
		userdata = userdata[2+n:]
	}
	return ""
}
