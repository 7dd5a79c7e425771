package nft

import (
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// CounterName is the counter of connections whose client could not be remembered,
// because the affinity map is full. It is the only object of the table that is
// neither chain nor set, and every table has it.
const CounterName = "affinity-full"

// countFull counts a connection.
func countFull() Statement {
	return Statement{
		Text:        fmt.Sprintf("counter name %q", CounterName),
		Expressions: []any{&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: CounterName}},
	}
}
