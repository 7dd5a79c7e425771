package nft

import (
	"encoding/binary"
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

// payloadWrite is an expression that changes a packet's header. The library's own leaves
// out the flags where there is no checksum of the header itself.
type payloadWrite struct {
	base                 expr.PayloadBase
	offset, length       uint32
	register             uint32
	csumType, csumOffset uint32
	transportChecksumToo bool
}

// marshal encodes the expression as nf_tables wants it (NFTA_PAYLOAD_*,
// include/uapi/linux/netfilter/nf_tables.h).
func (w payloadWrite) marshal() []byte {
	var flags uint32
	if w.transportChecksumToo {
		flags = unix.NFT_PAYLOAD_L4CSUM_PSEUDOHDR
	}
	var data []byte
	for _, a := range [...]struct {
		kind  uint16
		value uint32
	}{
		{unix.NFTA_PAYLOAD_SREG, w.register},
		{unix.NFTA_PAYLOAD_BASE, uint32(w.base)},
		{unix.NFTA_PAYLOAD_OFFSET, w.offset},
		{unix.NFTA_PAYLOAD_LEN, w.length},
		{unix.NFTA_PAYLOAD_CSUM_TYPE, w.csumType},
		{unix.NFTA_PAYLOAD_CSUM_OFFSET, w.csumOffset},
		{unix.NFTA_PAYLOAD_CSUM_FLAGS, flags},
	} {
		data = appendAttribute(data, a.kind, binary.BigEndian.AppendUint32(nil, a.value))
	}
	out := appendAttribute(nil, unix.NFTA_EXPR_NAME, []byte("payload\x00"))
	return appendAttribute(out, unix.NFTA_EXPR_DATA|unix.NLA_F_NESTED, data)
}

// appendAttribute appends an attribute of netlink, padded.
func appendAttribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(attrLen+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// setDestination makes the address that the map holds the packet's destination.
func setDestination(id SetID) statement {
	load, _ := loadKey(id, pick{})
	fam := id.family()
	return statement{
		text: fmt.Sprintf("%s daddr set %s map @%s", fam.name, lookup(id, pick{}), id.Name()),
		expressions: append(load,
			&expr.Lookup{SourceRegister: regKey, DestRegister: regValue, IsDestRegSet: true, SetName: id.Name(), SetID: byNameOnly},
			fam.writeDestination()),
	}
}

// writeDestination makes the address in the register the packet's destination.
func (fam *family) writeDestination() payloadWrite {
	return payloadWrite{
		base: expr.PayloadBaseNetworkHeader, offset: fam.daddr, length: fam.addrLen, register: regValue,
		csumType: fam.csumType, csumOffset: fam.csumOffset, transportChecksumToo: true,
	}
}

// setPort makes the port that the map holds the packet's destination, of one
// protocol: the place of the checksum depends on it.
func setPort(id SetID, p model.Protocol) statement {
	load, _ := loadKey(id, pick{})
	onlyThis := protocolIs(p)
	return statement{
		text: fmt.Sprintf("%[1]s dport set meta l4proto . %[1]s dport map @%[2]s", p, id.Name()),
		expressions: append(append(onlyThis.expressions, load...),
			&expr.Lookup{SourceRegister: regKey, DestRegister: regValue, IsDestRegSet: true, SetName: id.Name(), SetID: byNameOnly},
			writePort(p)),
	}
}

// writePort makes the port in the register the packet's destination. That of UDP
// is left to the kernel to find, since it then leaves alone a packet without one.
// That of SCTP is made anew by the translation that follows.
func writePort(p model.Protocol) payloadWrite {
	w := payloadWrite{base: expr.PayloadBaseTransportHeader, offset: dportAt, length: portLen, register: regValue}
	switch p {
	case model.TCP:
		w.csumType, w.csumOffset = unix.NFT_PAYLOAD_CSUM_INET, tcpChecksumAt
	case model.UDP:
		w.transportChecksumToo = true
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
			text:        fmt.Sprintf("%s dport set ct original proto-dst", p),
			expressions: append(only.expressions, original(expr.CtKeyPROTODST), writePort(p)),
		}})
	}
	return append(rules, Rule{{
		text:        fmt.Sprintf("%[1]s daddr set ct original %[1]s daddr", fam.name),
		expressions: []any{original(fam.ctDestination), fam.writeDestination()},
	}})
}
