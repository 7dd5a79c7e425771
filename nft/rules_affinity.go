package nft

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// rules of a chain that remembers clients. To update an element that is there
// already makes it last longer, but leaves the endpoint it holds (kernel:
// nft_dynset_eval): whichever endpoint was picked, a client that is remembered
// goes to its own. If the map is full, nothing is remembered, and the connection
// is counted and goes where it was picked to go.
//
// The look-up has a chain of its own, once: for each chain that looks into a map, the
// kernel walks all that do already (nf_tables_bind_set).
func (id ChainID) stickyRules(fam *family) []Rule {
	s := id.Sticky.Value()
	clients := SetID{Family: id.Family, Kind: SetAffinity, Local: id.Local}
	return []Rule{
		{remember(clients, s)},
		{jump(ChainID{Family: id.Family, Kind: ChainStickyFound, Local: id.Local})},
		{protocolIs(s.Protocol), countFull(), translateTo(fam, s)},
	}
}

// remember notes that the client has the endpoint, for a time from now.
func remember(id SetID, s Sticky) Statement {
	load, next := loadKey(id, pick{})
	timeout := time.Duration(s.Seconds) * time.Second
	return Statement{
		Text: fmt.Sprintf("update @%s { %s timeout %s : %s . %d }",
			id.Name(), lookup(id, pick{}), durationText(timeout), s.Endpoint.Addr(), s.Endpoint.Port()),
		sets: []SetID{id},
		Expressions: append(append(load, s.immediates(id.family(), next)...),
			&expr.Dynset{
				SrcRegKey: regKey, SrcRegData: next, SetName: id.Name(), SetID: byNameOnly,
				Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: timeout,
			}),
	}
}

// translateTo sends the connection to the endpoint itself.
func translateTo(fam *family, s Sticky) Statement {
	to := s.Endpoint.String()
	return Statement{
		Text:        "dnat to " + to,
		Expressions: append(s.immediates(fam, regKey), translation(fam, regKey)),
	}
}

// immediates put the endpoint into registers, its address and then its port.
func (s Sticky) immediates(fam *family, reg uint32) []any {
	port := s.Endpoint.Port()
	return []any{
		&expr.Immediate{Register: reg, Data: s.Endpoint.Addr().AsSlice()},
		&expr.Immediate{Register: reg + fam.addrLen/4, Data: []byte{byte(port >> 8), byte(port)}},
	}
}

// durationText is a time as nft lists it: "3h", "1m30s", "1d".
func durationText(d time.Duration) string {
	var s strings.Builder
	for _, unit := range [...]struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if n := d / unit.size; n > 0 {
			fmt.Fprintf(&s, "%d%s", n, unit.name)
			d %= unit.size
		}
	}
	return s.String()
}

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
