package nft

import (
	"fmt"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Connections are counted where their packets have the endpoint already: in hooks of
// type nat, which only the first packet of a connection passes, behind the translation
// of the destination and before that of the source.
//
//	10.96.0.10:80 --nat-prerouting--> 10.244.1.2:8080 --nat-postrouting--> counted
//	                                                   \-nat-input-------> counted
//	set connections: 10.96.0.10 . tcp . 80 . 10.244.1.2 . 8080 counter packets 3 bytes 180
//
// A key says by itself what it counts, so that a count outlives its endpoint's moves
// from slot to slot, and restarts. It costs nothing until there is such a connection.
// Others translate destinations, too; what they add, we do not know the address of,
// and remove.

// MaxConnectionCounts is how many pairs, of what is asked for and the endpoint that is got,
// are told apart in each family. Connections of any more are not counted. To list a
// set that packets fill costs the kernel the square of what it holds, since it begins
// anew for each piece of the answer: half a second for 100,000, some for twice as many.
const MaxConnectionCounts = 1 << 17

// countRule counts connections. The protocols are there for nft: without them, 1.0.6
// does not know that what follows has ports (ct_expr_update_type), and cannot load it.
func countRule(f model.Family) Rule {
	return Rule{translated(), withPorts(), count(SetID{Family: f, Kind: SetConnections})}
}

// withPorts matches protocols that have ports.
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

// count adds one to the counter of the packet's key, which is made when it is first
// needed. "update" would do the same; but kernels want a timeout for that.
func count(id SetID) Statement {
	load, _ := loadKey(id, pick{})
	return Statement{
		Text: fmt.Sprintf("add @%s { %s counter }", id.Name(), lookup(id, pick{})),
		sets: []SetID{id},
		Expressions: append(load, &expr.Dynset{
			SrcRegKey: regKey, SetName: id.Name(), Operation: unix.NFT_DYNSET_OP_ADD,
			Exprs: []expr.Any{&expr.Counter{}},
		}),
	}
}
