package nft

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// stickyRules are the rules of an endpoint's chain that remembers its clients in the
// affinity map (SetAffinity, sets.go). An update of an existing element extends its
// timeout, but keeps its endpoint (kernel: nft_dynset_eval): whichever endpoint was picked,
// a remembered client goes to its own. If the map is full, the client is not remembered,
// and the connection is counted and goes to the endpoint that was picked.
//
// The look-up has one chain of its own for all endpoints: for each chain that reads a map,
// the kernel walks all that do already (nf_tables_bind_set).
func (id ChainID) stickyRules(fam *family) []Rule {
	s := id.Sticky.Value()
	clients := SetID{Family: id.Family, Kind: SetAffinity, Local: id.Local}
	return []Rule{
		{remember(clients, s)},
		{jump(ChainID{Family: id.Family, Kind: ChainStickyFound, Local: id.Local})},
		{protocolIs(s.Protocol), countFull(), translateTo(fam, s)},
	}
}

// remember notes that the client has the endpoint, until a timeout.
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

// immediates puts the endpoint into registers, its address and then its port.
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

// CounterName is the name of the counter of connections whose client could not be
// remembered because the affinity map is full. It is the only object of the table that is
// neither chain nor set, and every table has it.
const CounterName = "affinity-full"

// countFull counts a connection.
func countFull() Statement {
	return Statement{
		Text:        fmt.Sprintf("counter name %q", CounterName),
		Expressions: []any{&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: CounterName}},
	}
}
