package nft

import (
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// A family is what the rule set needs to know of an IP family. The rest of the package loops
// over families and never checks which one it has.
type family struct {
	name     string // in nft's words
	number   uint8  // NFPROTO_*
	addrType datatype
	addrLen  uint32
	saddr    uint32 // offsets in the network header
	daddr    uint32
	icmp     uint8 // protocol number
	icmpName string
	portUnr  uint8 // the code of ICMP port unreachable
	// An echo request as nft names it, and its type.
	echoName string
	echo     uint8
	// The type of the header's own checksum (NFT_PAYLOAD_CSUM_*), and its offset.
	csumType, csumOffset uint32
	// The original source and destination in connection tracking (NFT_CT_SRC_IP*, NFT_CT_DST_IP*).
	ctSource, ctDestination expr.CtKey
}

var families = [...]family{
	model.IPv4: {
		name: "ip", number: unix.NFPROTO_IPV4, addrType: typeIPv4, addrLen: 4, saddr: 12, daddr: 16,
		icmp: unix.IPPROTO_ICMP, icmpName: "icmp", portUnr: 3, echoName: "icmp type echo-request", echo: 8,
		csumType: unix.NFT_PAYLOAD_CSUM_INET, csumOffset: 10,
		ctSource: expr.CtKeySRCIP, ctDestination: expr.CtKeyDSTIP,
	},
	model.IPv6: {
		name: "ip6", number: unix.NFPROTO_IPV6, addrType: typeIPv6, addrLen: 16, saddr: 8, daddr: 24,
		icmp: unix.IPPROTO_ICMPV6, icmpName: "ipv6-icmp", portUnr: 4, echoName: "icmpv6 type echo-request", echo: 128,
		ctSource: expr.CtKeySRCIP6, ctDestination: expr.CtKeyDSTIP6,
	},
}

// TableBase is the name of our table in each family, without the name of the proxy.
const TableBase = "kube-vmap"

// TableName returns the name of our table in each family.
func TableName() string { return model.Named(TableBase) }

// FamilyNumber returns the family's number in netfilter (NFPROTO_*).
func FamilyNumber(f model.Family) uint8 { return families[f].number }

// FamilyName returns nft's word for the family, "ip" or "ip6".
func FamilyName(f model.Family) string { return families[f].name }

func (fam *family) bits() int { return int(fam.addrLen) * 8 }

// zero is the address that is none.
func (fam *family) zero() netip.Addr {
	a, _ := netip.AddrFromSlice(make([]byte, fam.addrLen))
	return a
}
