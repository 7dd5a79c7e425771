package trace

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"kube-vmap/nft/kernel/dump"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/simulate"
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

// A metadataCache is what was read about chains, rules and interfaces since nf_tables last
// changed.
type metadataCache struct {
	generation uint32
	chains     map[simulate.Chain]Chain
	rules      map[ruleKey]Rule
	links      map[uint32]link
}

type link struct {
	name   string
	bridge bool
}

type ruleKey struct {
	chain  simulate.Chain
	handle uint64
}

// refreshMetadata clears the cache if nf_tables changed.
func (t *Tracer) refreshMetadata() error {
	now, err := socket.Generation(t.own)
	if t.metadata.chains == nil || now != t.metadata.generation {
		t.metadata = metadataCache{now, map[simulate.Chain]Chain{}, map[ruleKey]Rule{}, map[uint32]link{}}
	}
	return err
}

// chainOf returns the chain of an event. A chain that no longer exists has a name and no
// hook.
func (t *Tracer) chainOf(e *Event) (Chain, error) {
	if c, known := t.metadata.chains[e.Chain]; known {
		return c, nil
	}
	c, err := t.reader.Chain(e.Chain)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Chain{}, err
	}
	c.Table, c.Name = e.Chain.Table, e.Chain.Name
	t.metadata.chains[e.Chain] = Chain{c, c.Table.Name == t.table}
	return t.metadata.chains[e.Chain], nil
}

func (t *Tracer) ruleOf(e *Event) (Rule, error) {
	key := ruleKey{e.Chain, e.Rule}
	if r, known := t.metadata.rules[key]; known {
		return r, nil
	}
	read, err := t.reader.Rule(e.Chain, e.Rule)
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return Rule{}, err
	}
	r := Rule{
		Handle: e.Rule, Text: read.Text(), Comment: simulate.Printable(read.Comment()), Rejects: read.Rejects(), Gone: gone,
	}
	t.metadata.rules[key] = r
	return r, nil
}

func (t *Tracer) link(index uint32) (link, error) {
	if l, known := t.metadata.links[index]; known || index == 0 {
		return l, nil
	}
	name, bridge, err := t.routes.Interface(int(index))
	if err != nil {
		return link{}, err
	}
	l := link{simulate.Printable(name), bridge}
	if name == "" { // it no longer exists
		l.name = fmt.Sprintf("interface %d", index)
	}
	t.metadata.links[index] = l
	return l, nil
}
