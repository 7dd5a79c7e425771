package nft

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Connections are counted where their packets have the endpoint as destination: in hooks of
// type nat, which only the first packet of a connection passes, after the translation of the
// destination and before the translation of the source.
//
//	10.96.0.10:80 --nat-prerouting--> 10.244.1.2:8080 --nat-postrouting--> counted
//	                                                   \-nat-input-------> counted
//	set connections: 10.96.0.10 . tcp . 80 . 10.244.1.2 . 8080 counter packets 3 bytes 180
//
// The key contains everything that a count belongs to. So counts survive restarts, and endpoints
// that move from slot to slot keep theirs. A frontend without connections costs nothing. Other
// programs translate destinations, too; elements for addresses without a frontend are removed.

// Clients choose how many pairs of a Service they use. If the set fills, package connections of
// sync puts the frontends of namespaces that have more than their share into another set:
//
//	set uncounted: 10.96.0.66 . tcp . 80 timeout 10m
//
// Its elements expire, so a restart has nothing to remember.

// UncountedTime is how long a frontend remains in [SetUncounted].
const UncountedTime = 10 * time.Minute

// MaxConnectionCounts is how many pairs of original destination and endpoint are counted in
// each family. Connections of further pairs are only counted in total
// ([CounterConnectionsFull]). Listing a set that packets fill costs the kernel the square
// of its size, since it starts over for each piece of the dump: half a second for 100,000,
// seconds for twice as many.
const MaxConnectionCounts = 1 << 17

// countRule sends connections whose destination was translated to the rules that count them.
func countRule(f model.Family) Rule {
	return Rule{translated(), jump(ChainID{Family: f, Kind: ChainCount})}
}

// countRules count a connection: of a known pair by looking it up, of a new one unless its frontend
// is not counted for now. If the set is full, or the kernel gets no memory for an element without
// waiting, the third rule does not match, and the fourth counts the uncounted ones. The match on
// protocols is for nft: without it, 1.0.6 does not know that the key has ports
// (ct_expr_update_type), and cannot load it.
func countRules(f model.Family) []Rule {
	pair := SetID{Family: f, Kind: SetConnections}
	return []Rule{
		{withPorts(), in(pair), back()},
		{withPorts(), in(SetID{Family: f, Kind: SetUncounted}), back()},
		{withPorts(), count(pair), back()},
		{withPorts(), countIn(CounterConnectionsFull)},
	}
}

// unansweredRule counts retransmissions: a client of TCP or SCTP without a reply to its first
// packet sends it again, after a second or more. By then the connection is confirmed, which happens
// when its first packet has left. Over UDP any number of packets may precede a reply.
func unansweredRule() Rule {
	return Rule{protocolIsNot(model.UDP), confirmed(), translated(), countIn(CounterUnanswered)}
}

func withPorts() Statement {
	names := make([]string, len(model.Protocols))
	for i, p := range model.Protocols {
		names[i] = p.String()
	}
	return Statement{
		Text:      "meta l4proto { " + strings.Join(names, ", ") + " }",
		Protocols: model.Protocols[:],
		Expressions: []any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: regValue},
			&expr.Lookup{SourceRegister: regValue, SetName: anonymousSet},
		},
	}
}

// count adds one to the counter of the packet's key, and adds the element if it is new.
// "update" would do the same, but kernels require a timeout for it.
func count(id SetID) Statement {
	change := &expr.Dynset{Operation: unix.NFT_DYNSET_OP_ADD, Exprs: []expr.Any{&expr.Counter{}}}
	return changeSet(id, "add", " counter", change)
}

// changeSet changes the element of the packet's key.
func changeSet(id SetID, word, options string, change *expr.Dynset) Statement {
	load, _ := loadKey(id, pick{})
	change.SrcRegKey, change.SetName, change.SetID = regKey, id.Name(), byNameOnly
	return Statement{
		Text:        fmt.Sprintf("%s @%s { %s%s }", word, id.Name(), lookup(id, pick{}), options),
		sets:        []SetID{id},
		Expressions: append(load, change),
	}
}

// A Counter is one of the named counters, which every table has. They are its only objects that
// are neither chains nor sets.
type Counter uint8

// The named counters.
const (
	CounterAffinityFull    Counter = iota // connections whose client could not be remembered
	CounterConnectionsFull                // connections that could not be counted
	CounterUnanswered                     // first packets of connections that were sent again
	CounterHeld                           // packets of connections that were held
	Counters
)

// String returns the counter's name in the table.
func (c Counter) String() string {
	return [Counters]string{"affinity-full", "connections-full", "unanswered", "held"}[c]
}

// countIn counts a connection in a named counter.
func countIn(c Counter) Statement {
	return Statement{
		Text:        fmt.Sprintf("counter name %q", c),
		Expressions: []any{&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: c.String()}},
	}
}
