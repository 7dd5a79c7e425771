package conntrack

import (
	"kube-vmap/model"
	"kube-vmap/nft/attr"
)

// Translated is an entry whose destination was translated.
type Translated struct {
	Entry
	// ID is the kernel's number of the entry. It stays while the entry exists, and hardly
	// ever occurs twice.
	ID uint32
	// Open reports whether the connection is being opened or is open; it is always true
	// for protocols other than TCP, whose entries do not outlive their packets for long.
	Open bool
	// Replied reports whether the endpoint has sent anything back. A refusal over UDP, which
	// is an ICMP error, does not count.
	Replied bool
	// Aborted reports whether the endpoint refused an association of SCTP. Refused
	// connections of TCP have no entry: the kernel deletes it with the reset.
	Aborted bool
}

// Bits of the status of entries (include/uapi/linux/netfilter/nf_conntrack_common.h).
const (
	statusSeenReply = 1 << 1 // IPS_SEEN_REPLY
	statusAssured   = 1 << 2 // IPS_ASSURED: both sides have sent what opens a connection
	statusDstNAT    = 1 << 5 // IPS_DST_NAT: the destination was translated
	// IPS_OFFLOAD: the flow is in a flowtable. If a device has taken it, IPS_HW_OFFLOAD is set
	// in addition. The kernel sends neither state nor time-out of such an entry
	// (ctnetlink_dump_info).
	statusOffloaded = 1 << 14
)

// translated returns an entry with what its attributes say.
func translated(e Entry, raw rawEntry, data []byte) Translated {
	var d attr.Decoder
	replied := raw.status&statusSeenReply != 0
	return Translated{
		Entry: e, ID: d.Uint32(raw.id), Open: e.Offloaded || isOpen(e.Protocol, data), Replied: replied,
		Aborted: e.Protocol == model.SCTP && replied && raw.status&statusAssured == 0 && isClosed(e.Protocol, data),
	}
}

// The states of TCP in which a connection is being opened or is open; see [tcpStates].
const tcpSynSent, tcpEstablished = 1, 3

// isOpen reports whether neither side has ended the connection of an entry.
func isOpen(p model.Protocol, entry []byte) bool {
	if p != model.TCP {
		return true
	}
	var d attr.Decoder
	state := decodeState(d.Find(d.Body(entry), ctaProtoInfo))
	return state >= tcpSynSent && state <= tcpEstablished
}
