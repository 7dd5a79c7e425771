package trace

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/simulate"
)

// A Chain is a chain of any table.
type Chain struct {
	dump.Chain
	// Own is true if the chain is this tracer's.
	Own bool
}

// IsTracer reports whether the chain is a tracer's, this one's or another.
func (c Chain) IsTracer() bool { return c.Own || strings.HasPrefix(c.Table.Name, TableName) }

func (c Chain) isIPHook() bool {
	return c.Table.Family != "bridge" && c.Table.Family != "arp" && slices.Contains(hooks, c.Hook)
}

// A Rule is a rule of any table, as far as it could be read.
type Rule struct {
	Handle uint64
	// Text is the rule in the syntax of nft, or close to it.
	Text, Comment string
	// Rejects is true if the rule answers the sender of a packet that it drops.
	Rejects bool
	// Gone is true if the rule no longer existed when it was read: it was replaced at that
	// moment.
	Gone bool
}

type link struct {
	name   string
	bridge bool
}

// A resolvedEvent is an event with what it names, read from the kernel.
type resolvedEvent struct {
	event
	chain   Chain
	in, out link
}

// resolve reads what an event names. A chain that no longer exists has a name and no hook.
func (t *Tracer) resolve(e event) (resolvedEvent, error) {
	out := resolvedEvent{event: e}
	c, chainErr := t.reader.Chain(e.at)
	if errors.Is(chainErr, fs.ErrNotExist) {
		chainErr = nil
	}
	c.Chain = e.at
	out.chain = Chain{c, e.at.Table.Name == t.table}
	var ruleErr, inErr, outErr error
	if e.Kind != KindPolicy && e.Rule.Handle != 0 {
		out.Rule, ruleErr = t.rule(e.at, e.Rule.Handle)
	}
	out.in, inErr = t.link(e.in)
	out.out, outErr = t.link(e.out)
	return out, errors.Join(chainErr, ruleErr, inErr, outErr)
}

func (t *Tracer) rule(c simulate.Chain, handle uint64) (Rule, error) {
	read, err := t.reader.Rule(c, handle)
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return Rule{}, err
	}
	return Rule{
		Handle: handle, Text: read.Text(), Comment: simulate.Printable(read.Comment()), Rejects: read.Rejects(), Gone: gone,
	}, nil
}

func (t *Tracer) link(index uint32) (link, error) {
	if index == 0 {
		return link{}, nil
	}
	name, bridge, err := t.routes.Interface(int(index))
	if name == "" { // it no longer exists
		name = fmt.Sprintf("interface %d", index)
	}
	return link{simulate.Printable(name), bridge}, err
}
