package nft

import (
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// The affinity map has the number of the endpoint that a client has ([endpointNumbers]). Another
// map translates the Service and the number to the endpoint, so an endpoint does not need
// a chain. In between the number is the packet's priority: nft prints that as the data of
// an element, but not a look-up. It is removed after the hook (restorePriority).
//
//	map affinity           192.0.2.7 . 10.96.0.10 . tcp . 80 : f0ab:7
//	map sticky-numbers     10.96.0.10 . tcp . 80 . 0 : f0ab:7
//	map sticky-endpoints   10.96.0.10 . tcp . 80 . f0ab:7 : 10.244.1.3 . 8080
//
// An endpoint that is removed has no number from the same transaction on: the next
// connection of a client that remembers it finds nothing in the last map.

// stickyRules are the rules of a chain that gives a client the endpoint that it had, or else
// a random one. An update of an existing element extends its timeout, but keeps its number
// (kernel: nft_dynset_eval). So if two connections of a new client are here at a time,
// both look up what the first of them left. If the map is full, the client is not
// remembered, and the connection is counted and goes to an endpoint by the client's address:
// the same each time, as long as the endpoints stay.
//
// Each class of slots (slotClass) and each of the few times that package model permits has
// such a chain. It has no look-up itself: for each chain with one, the kernel walks all
// elements or buckets of the map (nf_tables_bind_set). The chains before it do not look up
// either, see rewriteRules.
func (id ChainID) stickyRules() []Rule {
	clients := id.set(SetAffinity)
	timeout := time.Duration(id.Seconds) * time.Second
	to := func(kind ChainKind, n uint32) ChainID {
		return ChainID{Family: id.Family, Kind: kind, Local: id.Local, N: n}
	}
	rules := []Rule{
		{jump(to(ChainStickyClient, 0))},
		{hasNumber(), remember(clients, timeout), jump(to(ChainStickyEndpoint, 0))},
	}
	for range 2 { // again if the endpoint was removed between pick and translation, see endpointRules
		rules = append(rules,
			Rule{jump(to(ChainStickyPick, id.N))},
			Rule{remember(clients, timeout), jump(to(ChainStickyNew, 0))})
	}
	return append(rules, Rule{countIn(CounterAffinityFull), goTo(to(ChainStickyFull, id.N))})
}

// slotClass is the number of slots that a chain picks from, for n: the next power of two. With
// a chain for each number, in each class of times, an author who uses all of them would slow
// every change of others: the kernel checks all chains (nft_table_validate).
func slotClass(n int) uint32 {
	if n < 2 {
		return uint32(n)
	}
	return 1 << bits.Len32(uint32(n-1))
}

// pickTries is how often a slot is picked until one is found that exists, as more than half
// of the class do. So at most one client of 256 gets a slot of the lower half because of
// that.
const pickTries = 8

// stickyPickRules pick the number of one of more than N/2 and at most N slots, before the last
// statement.
func (id ChainID) stickyPickRules(m method, last Statement) []Rule {
	try := func(n, number uint32) Rule {
		return Rule{setNumber(id.set(SetStickyNumbers), pick{n, m, number}), last}
	}
	tries := uint32(pickTries)
	if id.N <= 2 {
		tries = 1 // all exist
	}
	var rules []Rule
	for i := range tries {
		rules = append(rules, try(id.N, i))
	}
	for n := id.N / 2; n > 0; n /= 2 { // all of a half exist, unless slots were removed meanwhile
		rules = append(rules, try(n, pickTries))
	}
	return rules
}

// stickyEndpointRules translate to the endpoint that has the packet's number. If it does
// not exist, the client forgets it. The matches on protocols are for nft, see
// [countRule].
func (id ChainID) stickyEndpointRules() []Rule {
	return []Rule{
		{withPorts(), translate(id.set(SetStickyEndpoints), pick{})},
		{withPorts(), forget(id.set(SetAffinity))},
	}
}

// setNumber makes the map's number for the packet its priority.
func setNumber(id SetID, d pick) Statement {
	return Statement{
		Text:        fmt.Sprintf("meta priority set %s map @%s", lookup(id, d), id.Name()),
		sets:        []SetID{id},
		Expressions: append(mapped(id, d, regValue), writePriority()),
	}
}

// writePriority makes the number in the register the packet's priority.
func writePriority() *expr.Meta {
	return &expr.Meta{Key: expr.MetaKeyPRIORITY, SourceRegister: true, Register: regValue}
}

// remember notes that the client has the endpoint of the packet's number, until a timeout.
func remember(id SetID, timeout time.Duration) Statement {
	return changeNumber(id, "update", " timeout "+durationText(timeout), &expr.Dynset{
		Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: timeout,
	})
}

// dynsetDelete is NFT_DYNSET_OP_DELETE.
const dynsetDelete = 2

// forget deletes the packet's entry of a map of numbers. The data decides nothing, but the kernel
// requires some (nft_dynset_init).
func forget(id SetID) Statement {
	return changeNumber(id, "delete", "", &expr.Dynset{Operation: dynsetDelete})
}

func changeNumber(id SetID, word, options string, change *expr.Dynset) Statement {
	load, next := loadKey(id, pick{})
	change.SrcRegKey, change.SrcRegData, change.SetName, change.SetID = regKey, next, id.Name(), byNameOnly
	return Statement{
		Text:        fmt.Sprintf("%s @%s { %s%s : meta priority }", word, id.Name(), lookup(id, pick{}), options),
		sets:        []SetID{id},
		Expressions: append(append(load, FieldNumber.load(id.family(), next, pick{})...), change),
	}
}

// restorePriority sets a packet's priority to zero, which it nearly always was, if it is one
// of our numbers. IPv4 sets it when it forwards a packet, anyway (ip_forward); otherwise
// traffic control would see it.
func restorePriority() Rule {
	return Rule{hasNumber(), setPriority(0)}
}

// hasNumber matches packets whose priority is one of our numbers.
func hasNumber() Statement {
	return Statement{
		Text: "meta priority & f000:0 == f000:0",
		Expressions: []any{
			&expr.Meta{Key: expr.MetaKeyPRIORITY, Register: regValue},
			&expr.Bitwise{SourceRegister: regValue, DestRegister: regValue, Len: 4, Mask: native(numberMark), Xor: native(0)},
			&expr.Cmp{Op: expr.CmpOpEq, Register: regValue, Data: native(numberMark)},
		},
	}
}

// durationText is a time as nft lists it: "3h", "1m30s", "1d".
func durationText(d time.Duration) string {
	var s strings.Builder
	for _, unit := range [...]struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if n := d / unit.size; n > 0 {
			fmt.Fprintf(&s, "%d%s", n, unit.name)
			d %= unit.size
		}
	}
	return s.String()
}

// endpointNumbers are the numbers of a pool's endpoints, in the order of its lists: what the
// kernel remembers for a client, or of an endpoint that has just accepted.
//
// A number follows from the endpoint alone. So it survives restarts, other slots and other
// endpoints without any state, and is the same on all nodes. It need only be unique within
// one list of one pool: if two endpoints there have the same hash, the later one gets the
// next number. A client that remembers the number of a removed endpoint can at worst, in
// one of 2^28 cases, keep to another endpoint of the same Service.
type endpointNumbers struct{ cluster, local []uint32 }

// numbersOf returns the numbers of a pool's endpoints, or nil if it needs none.
func numbersOf(p *model.Pool) *endpointNumbers {
	switch {
	case p.Affinity > 0:
		return &endpointNumbers{numbered(p.Cluster, endpointHash), numbered(p.Local, endpointHash)}
	case p.RetryRefused:
		return &endpointNumbers{numbered(p.Cluster, replyHash), numbered(p.Local, replyHash)}
	}
	return nil
}

func (n *endpointNumbers) list(local bool) []uint32 {
	if local {
		return n.local
	}
	return n.cluster
}

// Bits of the numbers. The first four mark a packet's priority as one of ours.
const (
	numberMark = 0xf << 28
	numberMask = 1<<28 - 1
)

// numbered returns the number of each endpoint of a list: its hash, or the next number if the
// one before is as high. It sorts, because authors of EndpointSlices can find any number of
// endpoints with the same hash; to look for a free number for each would take the square of
// that.
func numbered(endpoints []netip.AddrPort, hash func(netip.AddrPort) uint32) []uint32 {
	var few [32]uint64 // not on the heap
	byHash := few[:0]  // hash and index
	for i, e := range endpoints {
		byHash = append(byHash, uint64(hash(e))<<32|uint64(i))
	}
	slices.Sort(byHash)
	out, next := make([]uint32, len(endpoints)), uint64(0)
	for k, h := range byHash {
		next = max(next, h>>32)
		if next > numberMask {
			wrapNumbers(out, byHash[:k], byHash[k:])
			break
		}
		out[uint32(h)] = numberMark | uint32(next)
		next++
	}
	return out
}

// wrapNumbers gives the first free numbers to those that found none after their hash.
func wrapNumbers(out []uint32, done, left []uint64) {
	free := uint32(numberMark)
	for _, h := range left {
		for len(done) > 0 && out[uint32(done[0])] == free {
			free, done = free+1, done[1:]
		}
		out[uint32(h)] = free
		free++
	}
}

// endpointHash is a hash of an endpoint, below 2^28: FNV-1a, folded. It must never change,
// or a new version would lose the affinity of all clients.
func endpointHash(e netip.AddrPort) uint32 {
	h := uint64(14695981039346656037)
	add := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	for _, b := range e.Addr().As16() {
		add(b)
	}
	add(byte(e.Port() >> 8))
	add(byte(e.Port()))
	return uint32(h^h>>28^h>>56) & numberMask
}
