package conntrack

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// Messages of ctnetlink (include/uapi/linux/netfilter/nfnetlink_conntrack.h).
const (
	msgNew        = 0 // IPCTNL_MSG_CT_NEW
	msgGet        = 1 // IPCTNL_MSG_CT_GET
	msgDelete     = 2 // IPCTNL_MSG_CT_DELETE
	msgStatistics = 4 // IPCTNL_MSG_CT_GET_STATS_CPU
	msgUsage      = 5 // IPCTNL_MSG_CT_GET_STATS
)

// Attributes of ctnetlink, from the same header.
const (
	ctaTupleOrig  = 1
	ctaTupleReply = 2
	ctaStatus     = 3
	ctaProtoInfo  = 4
	ctaTimeout    = 7
	ctaMark       = 8
	ctaID         = 12
	ctaZone       = 18
	ctaTimestamp  = 20
	ctaLabels     = 22
	ctaFilter     = 25
	ctaStatusMask = 26

	ctaTupleIP    = 1
	ctaTupleProto = 2

	ctaIPv4Src = 1
	ctaIPv4Dst = 2
	ctaIPv6Src = 3
	ctaIPv6Dst = 4

	ctaProtoNum     = 1
	ctaProtoSrcPort = 2
	ctaProtoDstPort = 3

	ctaProtoInfoTCP  = 1
	ctaProtoInfoSCTP = 3
	ctaInfoState     = 1 // of TCP and of SCTP

	ctaTimestampStart  = 1
	ctaFilterOrigFlags = 1

	ctaStatsEntries    = 1 // CTA_STATS_GLOBAL_ENTRIES
	ctaStatsMaxEntries = 2 // CTA_STATS_GLOBAL_MAX_ENTRIES
)

// Flags of a filter: the fields of a tuple that it compares (net/netfilter/nf_internals.h).
const (
	filterProtocol = 1 << 3 // CTA_FILTER_F_CTA_PROTO_NUM
	filterDstPort  = 1 << 5 // CTA_FILTER_F_CTA_PROTO_DST_PORT
)

func request(kind uint16, flags netlink.HeaderFlags, family uint8, attributes func(*attr.Encoder)) netlink.Message {
	return socket.Request(unix.NFNL_SUBSYS_CTNETLINK, kind, flags, family, attributes)
}

func encodeList(q Query) netlink.Message {
	return request(msgGet, netlink.Dump, nft.FamilyNumber(q.Family), func(e *attr.Encoder) {
		encodeOriginalFilter(e, q.Protocol, q.Port)
	})
}

// A filter selects entries of a walk; the zero value selects all.
type filter struct {
	status, mask uint32 // IPS_*: the status has these bits, of those in the mask
	// protocol is the protocol of the entries, in one family: the kernel does not filter by
	// protocol alone (ctnetlink_parse_tuple_filter). Zero means all of both families.
	protocol model.Protocol
	family   model.Family
}

func encodeEach(f filter) netlink.Message {
	family := uint8(unix.AF_UNSPEC)
	if f.protocol != 0 {
		family = nft.FamilyNumber(f.family)
	}
	return request(msgGet, netlink.Dump, family, func(e *attr.Encoder) {
		if f.mask != 0 {
			e.Uint32(ctaStatus, f.status)
			e.Uint32(ctaStatusMask, f.mask)
		}
		if f.protocol != 0 {
			encodeOriginalFilter(e, f.protocol, 0)
		}
	})
}

// encodeOriginalFilter selects entries by the protocol and, unless it is zero, the destination
// port of their first packet.
func encodeOriginalFilter(e *attr.Encoder, p model.Protocol, port uint16) {
	flags := uint32(filterProtocol)
	e.Nested(ctaTupleOrig, func() {
		e.Nested(ctaTupleProto, func() {
			e.Uint8(ctaProtoNum, uint8(p))
			if port != 0 {
				e.Uint16(ctaProtoDstPort, port)
				flags |= filterDstPort
			}
		})
	})
	e.Nested(ctaFilter, func() { e.NativeUint32(ctaFilterOrigFlags, flags) })
}

// encodeDelete requests to delete exactly this entry.
func encodeDelete(entry Entry) netlink.Message {
	return request(msgDelete, 0, nft.FamilyNumber(entry.Family()),
		func(e *attr.Encoder) { e.Bytes = append(e.Bytes, entry.key...) })
}

func encodeTuple(e *attr.Encoder, kind uint16, p model.Protocol, src, dst netip.AddrPort) {
	srcKind, dstKind := uint16(ctaIPv4Src), uint16(ctaIPv4Dst)
	if src.Addr().Is6() {
		srcKind, dstKind = ctaIPv6Src, ctaIPv6Dst
	}
	e.Nested(kind, func() {
		e.Nested(ctaTupleIP, func() {
			e.Data(srcKind, src.Addr().AsSlice())
			e.Data(dstKind, dst.Addr().AsSlice())
		})
		e.Nested(ctaTupleProto, func() {
			e.Uint8(ctaProtoNum, uint8(p))
			e.Uint16(ctaProtoSrcPort, src.Port())
			e.Uint16(ctaProtoDstPort, dst.Port())
		})
	})
}

// shortDump requests a dump of one line for each processor.
func shortDump(family uint8) netlink.Message {
	return request(msgStatistics, netlink.Dump, family, nil)
}

// explainError adds to an error of the kernel its meaning here.
func explainError(err error) error {
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("the kernel lacks connection tracking's netlink (CONFIG_NF_CT_NETLINK): %w", err)
	case errors.Is(err, unix.EINTR):
		return fmt.Errorf("interrupted each time by changes of the table: %w", err)
	case errors.Is(err, unix.ENOBUFS):
		return fmt.Errorf("the kernel had no room for its answers: %w", err)
	}
	return socket.ExplainPermission(err, "use connection tracking")
}
