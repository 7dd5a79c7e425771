package nft

import (
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Whichever address of a Service a client asks, its packet is given the ClusterIP
// and port as destination before an endpoint is looked up. So all of a Service's
// addresses share one entry for each endpoint, and one memory of each client.
//
// That destination is never seen: it is there from one rule to the next, and the
// translation to the endpoint, in the same pass of the same hook, replaces it.
// Connection tracking took note of the address that the client asked before, and
// translates answers back to that.
//
// There is one case in which it does not replace it: where the endpoint is the very
// address and port that the client asked, an ingress on the node's own network for
// instance, there is nothing to translate, and the kernel leaves the packet as it
// is (nf_nat_setup_info). So right behind, in a hook of their own, connections that
// were not translated but go to a ClusterIP get back what connection tracking noted.

// PayloadWrite is an expression that changes a packet's header. The library's own leaves
// out the flags where there is no checksum of the header itself.
type PayloadWrite struct {
	Base                         expr.PayloadBase
	Offset, Length               uint32
	Register                     uint32
	ChecksumType, ChecksumOffset uint32
	TransportChecksumToo         bool
}

// setDestination makes the address that the map holds the packet's destination.
func setDestination(id SetID) Statement {
	load, _ := loadKey(id, pick{})
	fam := id.family()
	return Statement{
		Text: fmt.Sprintf("%s daddr set %s map @%s", fam.name, lookup(id, pick{}), id.Name()),
		sets: []SetID{id},
		Expressions: append(load,
			&expr.Lookup{SourceRegister: regKey, DestRegister: regValue, IsDestRegSet: true, SetName: id.Name(), SetID: byNameOnly},
			fam.writeDestination()),
	}
}

// writeDestination makes the address in the register the packet's destination.
func (fam *family) writeDestination() PayloadWrite {
	return PayloadWrite{
		Base: expr.PayloadBaseNetworkHeader, Offset: fam.daddr, Length: fam.addrLen, Register: regValue,
		ChecksumType: fam.csumType, ChecksumOffset: fam.csumOffset, TransportChecksumToo: true,
	}
}

// setPort makes the port that the map holds the packet's destination, of one
// protocol: the place of the checksum depends on it.
func setPort(id SetID, p model.Protocol) Statement {
	load, _ := loadKey(id, pick{})
	onlyThis := protocolIs(p)
	return Statement{
		Text: fmt.Sprintf("%[1]s dport set meta l4proto . %[1]s dport map @%[2]s", p, id.Name()),
		sets: []SetID{id},
		Expressions: append(append(onlyThis.Expressions, load...),
			&expr.Lookup{SourceRegister: regKey, DestRegister: regValue, IsDestRegSet: true, SetName: id.Name(), SetID: byNameOnly},
			writePort(p)),
	}
}

// writePort makes the port in the register the packet's destination. That of UDP
// is left to the kernel to find, since it then leaves alone a packet without one.
// That of SCTP is made anew by the translation that follows.
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

// tcpChecksumAt is where TCP has its checksum.
const tcpChecksumAt = 16

// restoreRules make a packet's destination again what connection tracking noted.
func restoreRules(fam *family) []Rule {
	original := func(key expr.CtKey) *expr.Ct { return &expr.Ct{Key: key, Register: regValue} }
	var rules []Rule
	for _, p := range model.Protocols {
		only := protocolIs(p)
		rules = append(rules, Rule{{
			Text:        fmt.Sprintf("%s dport set ct original proto-dst", p),
			Expressions: append(only.Expressions, original(expr.CtKeyPROTODST), writePort(p)),
		}})
	}
	return append(rules, Rule{{
		Text:        fmt.Sprintf("%[1]s daddr set ct original %[1]s daddr", fam.name),
		Expressions: []any{original(fam.ctDestination), fam.writeDestination()},
	}})
}
