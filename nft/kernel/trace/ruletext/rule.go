package ruletext

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// A Rule is a rule of the kernel as text.
type Rule struct {
	Handle uint64
	// Text is the rule in the syntax of nft, or close to it.
	Text    string
	Comment string
	// Rejects is true if the rule answers the sender of a packet that it drops.
	Rejects bool
	// Packets is the value of the rule's counter, if it has one.
	Packets uint64
}

// Decode decodes a rule, given what follows the netlink header of its message.
func Decode(message []byte) (Rule, error) {
	var d attr.Decoder
	a, err := parse(d.Body(message))
	d.Fail(err)
	if err := d.Err(); err != nil {
		return Rule{}, fmt.Errorf("decode a rule: %w", err)
	}
	w := &writer{family: message[0], statements: statements(), registers: map[uint32]value{}}
	for _, expression := range d.Attributes(a[unix.NFTA_RULE_EXPRESSIONS]) {
		d.Fail(w.expression(expression))
	}
	if err := d.Err(); err != nil {
		return Rule{}, fmt.Errorf("decode the expressions of a rule: %w", err)
	}
	comment := text(attr.Userdata(a[unix.NFTA_RULE_USERDATA], attr.CommentTag))
	if comment == "" {
		comment = w.comment
	}
	return Rule{
		Handle: a.number(unix.NFTA_RULE_HANDLE), Text: strings.Join(w.words, " "),
		Comment: comment, Rejects: w.rejects, Packets: w.packets,
	}, nil
}
