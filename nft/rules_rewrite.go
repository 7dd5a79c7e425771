package nft

import (
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Before an endpoint is looked up, a packet to any other address of a Service is given
// the ClusterIP and its port as destination. So all addresses of a Service share one
// element for each endpoint, and one affinity for each client.
//
// No other program sees that destination: it exists from one rule to the next, and the
// translation to the endpoint, in the same pass of the same hook, replaces it. Connection
// tracking recorded the original destination before, and translates replies back to it.
//
// In one case it is not replaced: if the endpoint is the original destination itself, for
// instance an ingress on the node's own network, nothing needs translation, and the
// kernel leaves the packet as it is (nf_nat_setup_info). So directly after, in a hook of
// their own, untranslated connections to a ClusterIP get the destination back that
// connection tracking recorded.

// A PayloadWrite is the expression that changes a packet's header. The expr.Payload of the
// library omits the flags if the header itself does not have a checksum.
type PayloadWrite struct {
	Base                         expr.PayloadBase
	Offset, Length               uint32
	Register                     uint32
	ChecksumType, ChecksumOffset uint32
	TransportChecksumToo         bool
}

// setDestination makes the map's address for the packet its destination.
func setDestination(id SetID) Statement {
	fam := id.family()
	return Statement{
		Text:        fmt.Sprintf("%s daddr set %s map @%s", fam.name, lookup(id, pick{}), id.Name()),
		sets:        []SetID{id},
		Expressions: append(mapped(id, pick{}, regValue), fam.writeDestination()),
	}
}

// writeDestination makes the address in the register the packet's destination.
func (fam *family) writeDestination() PayloadWrite {
	return PayloadWrite{
		Base: expr.PayloadBaseNetworkHeader, Offset: fam.daddr, Length: fam.addrLen, Register: regValue,
		ChecksumType: fam.csumType, ChecksumOffset: fam.csumOffset, TransportChecksumToo: true,
	}
}

// setPort makes the map's port for the packet its destination, for one protocol: the offset
// of the checksum depends on it.
func setPort(id SetID, p model.Protocol) Statement {
	return Statement{
		Text:        fmt.Sprintf("%[1]s dport set meta l4proto . %[1]s dport map @%[2]s", p, id.Name()),
		sets:        []SetID{id},
		Expressions: append(append(protocolIs(p).Expressions, mapped(id, pick{}, regValue)...), writePort(p)),
	}
}

// writePort makes the port in the register the packet's destination, and updates the
// checksum. For UDP the kernel finds the checksum itself, since only then it keeps
// packets without one as they are. For SCTP the translation that follows computes it.
func writePort(p model.Protocol) PayloadWrite {
	w := PayloadWrite{Base: expr.PayloadBaseTransportHeader, Offset: dportAt, Length: portLen, Register: regValue}
	switch p {
	case model.TCP:
		w.ChecksumType, w.ChecksumOffset = unix.NFT_PAYLOAD_CSUM_INET, tcpChecksumAt
	case model.UDP:
		w.TransportChecksumToo = true
	case model.SCTP:
	}
	return w
}

// tcpChecksumAt is the offset of the checksum in the header of TCP.
const tcpChecksumAt = 16

// restoreCheckRules find what was rewritten and not translated.
func restoreCheckRules(id ChainID, clusterIPs SetID) []Rule {
	return []Rule{
		append(Rule{translated()}, restorePriority()...),
		{notTranslated(), in(clusterIPs), goTo(id.as(ChainRestore))},
	}
}

// restoreRules make the original destination that connection tracking recorded the packet's
// destination again.
func restoreRules(fam *family) []Rule {
	original := func(key expr.CtKey) *expr.Ct { return &expr.Ct{Key: key, Register: regValue} }
	rules := []Rule{restorePriority()}
	for _, p := range model.Protocols {
		rules = append(rules, Rule{{
			Text:        fmt.Sprintf("%s dport set ct original proto-dst", p),
			Expressions: append(protocolIs(p).Expressions, original(expr.CtKeyPROTODST), writePort(p)),
		}})
	}
	return append(rules, Rule{{
		Text:        fmt.Sprintf("%[1]s daddr set ct original %[1]s daddr", fam.name),
		Expressions: []any{original(fam.ctDestination), fam.writeDestination()},
	}})
}
