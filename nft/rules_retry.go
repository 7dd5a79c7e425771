package nft

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/jhash"
)

// A reset that replies to the first packet of a connection is dropped if the Service retries
// ([model.Pool].RetryRefused). It has ended the entry of connection tracking (nf_conntrack_tcp_packet),
// so when the client, which did not see it, sends its packet again, that is translated anew.
//
//	set refusals   10.96.0.10 . tcp . 80 counter limit rate 500/second burst 1000 packets
//	set retrying   192.0.2.7 . 40312 . 10.96.0.10 . 80 . f000:0 expires 29s
//	set retried    10.96.0.10 . tcp . 80 counter
//	map accepted   80 . 10.96.0.10 expires 400ms : f0ab:7
//
// An element of retrying is a retry of a connection, by its number; nft cannot count otherwise
// without a look-up counting, too. The key of a node port has address zero: with a mask of zero,
// one set serves both kinds of frontends.
//
// A retry goes to an endpoint that has just accepted, if the Service still has it: the number in
// accepted follows from the source of the reply, and map sticky-endpoints has the endpoint. At random,
// one of 600 connections would meet four endpoints that refuse, if a fifth of them do. An entry is not
// replaced until it expires: when each reply deleted and added it, retries missed it at times (Linux
// 6.18). Clients with session affinity are retried at random.

const (
	// maxRetries is how often a connection is retried within retryTime.
	maxRetries = 3
	retryTime  = 30 * time.Second
	// MaxRetrying is how many retries are recorded in each family.
	MaxRetrying = 1 << 18
	// MaxAccepted is how many frontends have an entry in accepted, in each family. Its time is shorter
	// than that between two attempts: an endpoint that accepted and then refuses costs one retry.
	MaxAccepted  = 1 << 16
	acceptedTime = 500 * time.Millisecond
	// retryDone is the priority of a packet to drop.
	retryDone = numberMark | (maxRetries + 1)
)

// retryLimit is for the refusals of a frontend, which can have a sixteenth of MaxRetrying.
var retryLimit = &expr.Limit{Type: expr.LimitTypePkts, Unit: expr.LimitTimeSecond, Rate: 500, Burst: 1000}

// replyRule sends what replies to the first packets of a connection to the retry rules. Established
// connections are assured.
func replyRule(f model.Family) Rule {
	return Rule{
		notAssured(), translated(),
		{Text: "ct direction reply", Expressions: []any{
			&expr.Ct{Key: expr.CtKeyDIRECTION, Register: regValue},
			&expr.Cmp{Op: expr.CmpOpEq, Register: regValue, Data: []byte{1}},
		}},
		protocolIs(model.TCP), jump(ChainID{Family: f, Kind: ChainRetry}),
	}
}

// notRefused matches packets but resets that reply to a first packet: a later reset does not
// acknowledge anything (RFC 9293, 3.10.7).
func notRefused() Statement {
	const flagsAt, resetAndAck = 13, 1<<2 | 1<<4
	return Statement{
		Text: fmt.Sprintf("tcp flags != %#x", resetAndAck),
		Expressions: append(protocolIs(model.TCP).Expressions,
			&expr.Payload{DestRegister: regValue, Base: unix.NFT_PAYLOAD_TRANSPORT_HEADER, Offset: flagsAt, Len: 1},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: regValue, Data: []byte{resetAndAck}}),
	}
}

// replyPick makes the number of the endpoint that replies, without the mark: what a hash of Maglev
// makes of a client.
var replyPick = pick{count: numberMask + 1, method: pickMaglev}

// setReplyNumber makes the number of the endpoint that replies the packet's priority.
func setReplyNumber(fam *family) Statement {
	load := replyPick.expression(fam, regValue, regKey)
	load[len(load)-1].(*expr.Hash).Offset = numberMark
	return Statement{
		Text: fmt.Sprintf("meta priority set %s offset %d",
			strings.Replace(replyPick.text(fam), "th sport", "tcp sport", 1), uint32(numberMark)),
		Expressions: append(load, writePriority()),
	}
}

// replyHash is the hash of setReplyNumber.
func replyHash(e netip.AddrPort) uint32 {
	key := append(e.Addr().AsSlice(), byte(e.Port()>>8), byte(e.Port()), 0, 0)
	return jhash.Mod(key, replyPick.count, replyPick.seed())
}

// retryRules note which endpoint accepts, and drop a refusal if its connection can be retried, which its
// priority says from rule to rule. A client with session affinity forgets the endpoint: the packet becomes
// one of the client for that.
func retryRules(f model.Family, has func(SetID) bool) []Rule {
	set := func(kind SetKind) SetID { return SetID{Family: f, Kind: kind} }
	tcp, nodeAddr := protocolIs(model.TCP), originalIn(set(SetNodeIPs))
	rules := []Rule{
		{notRefused(), setReplyNumber(&families[f]), addNumber(set(SetAccepted))},
		{notRefused(), setPriority(0), back()},
		{tcp, in(set(SetRefusals)), setPriority(numberMark)},
		{priorityIsNot(numberMark), tcp, nodeAddr, inNodePorts(set(SetRefusals)), setPriority(numberMark)},
		{priorityIsNot(numberMark), back()},
	}
	for n := range uint32(maxRetries) {
		rules = append(rules, Rule{tcp, in(set(SetRetrying)), setPriority(numberMark | (n + 1))})
	}
	rules = append(rules,
		Rule{
			priorityIsNot(numberMark | maxRetries), tcp,
			changeSet(set(SetRetrying), "add", "", &expr.Dynset{Operation: unix.NFT_DYNSET_OP_ADD}), setPriority(retryDone),
		},
		// If the set is full, a connection is retried as often on average: who fills it harms others little.
		Rule{
			priorityIsNot(numberMark | maxRetries), priorityIsNot(retryDone), notOneOf(maxRetries + 1),
			setPriority(retryDone),
		},
		Rule{priorityIsNot(retryDone), setPriority(0), back()},
		Rule{tcp, in(set(SetRetried))},
		Rule{tcp, nodeAddr, inNodePorts(set(SetRetried))},
	)
	var forgets []Rule
	for _, local := range [...]bool{false, true} {
		if id := (SetID{Family: f, Kind: SetAffinity, Local: local}); has(id) {
			forgets = append(forgets, Rule{withPorts(), forget(id)})
		}
	}
	if len(forgets) > 0 {
		rules = append(append(rules, reverseRules(f, nodeAddr)...), forgets...)
	}
	return append(rules, Rule{drop()})
}

// retryRule picks an endpoint for a connection that was refused.
func (id ChainID) retryRule(choose Statement) Rule {
	return Rule{setPriority(numberMark), protocolIs(model.TCP), in(SetID{Family: id.Family, Kind: SetRetrying}), choose}
}

// acceptedRules translate to an endpoint that has just accepted, unless the Service has lost it.
func (id ChainID) acceptedRules() []Rule {
	last := SetID{Family: id.Family, Kind: SetAccepted}
	return []Rule{{withPorts(), setNumber(last, pick{}), translate(id.set(SetStickyEndpoints), pick{})}}
}

// addNumber notes the packet's number, if the map has none.
func addNumber(id SetID) Statement {
	return changeNumber(id, "add", "", &expr.Dynset{Operation: unix.NFT_DYNSET_OP_ADD})
}

// reverseRules make a reset a packet of its client to the ClusterIP, which is the key of affinity maps.
func reverseRules(f model.Family, nodeAddr Statement) []Rule {
	fam := &families[f]
	source := fam.writeDestination()
	source.Offset = fam.saddr
	rules := append([]Rule{{{
		Text:        fmt.Sprintf("%[1]s saddr set ct original %[1]s saddr", fam.name),
		Expressions: append(FieldOriginalSource.load(fam, regValue, pick{}), source),
	}}}, restoreRules(fam)...)
	rules = append(rules, ChainID{Family: f}.rewriteRules()...)
	for _, r := range (ChainID{Family: f, NodePort: true}).rewriteRules() {
		rules = append(rules, append(Rule{nodeAddr}, r...))
	}
	return rules
}

// originalIn matches packets whose connection had its destination in a set of addresses.
func originalIn(id SetID) Statement {
	fam := id.family()
	return Statement{
		Text: FieldOriginalDestination.text(fam) + " @" + id.Name(),
		sets: []SetID{id},
		Expressions: append(FieldOriginalDestination.load(fam, regKey, pick{}),
			&expr.Lookup{SourceRegister: regKey, SetName: id.Name(), SetID: byNameOnly}),
	}
}

// inNodePorts is [in] for a set that has node ports with address zero.
func inNodePorts(id SetID) Statement {
	s, fam := in(id), id.family()
	reg, at := uint32(regKey), 1 // and the number of the expression after the one that loads it
	for _, f := range id.Layout().Key {
		if f == FieldDestination || f == FieldOriginalDestination {
			s.Text = strings.Replace(s.Text, f.text(fam), f.text(fam)+" & "+fam.zero().String(), 1)
			s.Expressions = slices.Insert(s.Expressions, at, any(maskTo(fam, reg, 0)))
			break
		}
		if at++; id.SourceBits() < fam.bits() {
			at++
		}
		reg += f.Len(id.Family) / 4
	}
	return s
}

// setPriority changes the packet's priority, which was zero with few exceptions.
func setPriority(n uint32) Statement {
	text := "none"
	if n > 0 {
		text = ClassID(n)
	}
	return Statement{
		Text:        "meta priority set " + text,
		Expressions: []any{&expr.Immediate{Register: regValue, Data: native(n)}, writePriority()},
	}
}

// notOneOf matches all packets but one of n, at random.
func notOneOf(n uint32) Statement {
	return Statement{
		Text: fmt.Sprintf("numgen random mod %d != 0", n),
		Expressions: []any{
			&expr.Numgen{Register: regValue, Modulus: n, Type: unix.NFT_NG_RANDOM},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: regValue, Data: native(0)},
		},
	}
}

func priorityIsNot(n uint32) Statement {
	return Statement{Text: "meta priority != " + ClassID(n), Expressions: []any{
		&expr.Meta{Key: expr.MetaKeyPRIORITY, Register: regValue},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: regValue, Data: native(n)},
	}}
}
